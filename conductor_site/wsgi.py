"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "conductor_site.settings")
application = get_wsgi_application()


def _require_a_sound_database() -> None:
    from django.db import connections

    from conductor_site.database import require_well_placed_database
    from record.triggers import require_triggers

    require_well_placed_database()
    require_triggers()
    connections.close_all()  # a preloaded application is forked, and a connection must not be


_require_a_sound_database()
