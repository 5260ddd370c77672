"""Settings of the tests: everything in a scratch folder, plain static files, a cheap password hasher."""

import os
import tempfile

os.environ["CONDUCTOR_DATA"] = tempfile.mkdtemp(prefix="conductor-test-")

from conductor_site.settings import *  # noqa: E402, F403
from conductor_site.settings import DATA_DIR, DATABASES, STATIC_ROOT  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, not memory: threads and processes of one test share it.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
    DATABASES["default"]["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
STATIC_ROOT.mkdir()  # whitenoise warns of a folder that isn't there
API_READS_A_MINUTE = API_COMMANDS_A_MINUTE = 1_000_000  # users of many tests share their keys
