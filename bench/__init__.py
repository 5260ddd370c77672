"""Measures what Conductor costs, each figure against a limit; `make bench` runs it. Nothing of the site imports it."""
