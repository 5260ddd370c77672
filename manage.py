#!/usr/bin/env python3
"""Django's command line for Conductor."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "conductor_site.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        _refuse(f"A setting can't be used: {error}. docs/settings.md lists them all.")
    except (OperationalError, ProgrammingError) as error:
        _refuse(f"The database refused: {error}. Does it run, is it the right one, was `manage.py migrate` run?")


def _refuse(words: str) -> None:
    """End in words; with --traceback, which every command takes, as Python would."""
    if "--traceback" in sys.argv:
        raise
    sys.exit(f"{words} (--traceback shows where)")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nInterrupted.")
