"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "conductor_site.settings")
application = get_wsgi_application()


def _see_that_all_is_in_place() -> None:
    from django.db import connections

    from conductor_site.database import require_well_placed_database
    from conductor_site.statics import tell_of_missing_static_files
    from record.triggers import require_triggers

    require_well_placed_database()
    require_triggers()
    tell_of_missing_static_files()
    connections.close_all()  # a preloaded application is forked, and a connection must not be


_see_that_all_is_in_place()
