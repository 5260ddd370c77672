"""Backups of an installation, and their restoring."""
