"""Pictures and figures at which people decide: renderers that run where the data lies, without Django.

`python -m runs.qc SUBCOMMAND ... --out DIR [--json]` writes pictures and an `index.json` into DIR.
"""
