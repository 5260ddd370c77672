"""The program that puts a question to an agent, as a job: `python -m jobs.agents.runner` with the question on stdin.

It imports no Django and nothing of Conductor but this package and record.redaction, so that it starts quickly and sees
no settings, no database and no secret that it was not given by name.
"""
