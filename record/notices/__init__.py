"""Telling people what happened: which notices are owed, to whom, when, and what they say. Sent by record.notifiers."""
