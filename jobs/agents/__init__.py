"""Agents: programs, models and people that are asked something, and whose answers are data, never verdicts."""
