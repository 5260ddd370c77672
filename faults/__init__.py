"""Tries what kills, stalls and fills can do to Conductor, and counts what was lost, done twice or told wrongly.

It stands beside `bench`: both run the whole thing from outside, as real processes, and belong to no room of it. The
stages, stores and services on which it runs are those of the tests.
"""
