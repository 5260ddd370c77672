"""The one long-running process beside the web server: follows jobs, does what is due, keeps the task cluster going."""
