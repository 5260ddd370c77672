"""Real services for tests: SLURM (with and without accounting) and an SSH server, from Debian's packages.

Everything listens on loopback only, lives in a scratch folder, and ends with the process that started it.
"""
