"""How gunicorn serves Conductor: `gunicorn --config deploy/gunicorn.conf.py conductor_site.wsgi`.

Anything here can be set otherwise on the command line, or in GUNICORN_CMD_ARGS (`--bind 127.0.0.1:8000`).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conductor_site.env import env_choice  # noqa: E402
from conductor_site.logs import FORMATS, logging_config  # noqa: E402

bind = "unix:/run/conductor/web.sock"  # who may open it, says the folder
workers = 1  # pages are short and threads share their memory; more where a core is always busy
threads = 8
timeout = 60  # s without a sign of life, after which a worker is started anew
graceful_timeout = 20  # s for requests under way when it is told to stop
control_socket_disable = True  # nothing is asked of gunicorn but by signals
worker_tmp_dir = "/dev/shm"  # noqa: S108 - a worker's sign of life is a file's time: not on a disk that may stall
logconfig_dict = logging_config(
    level=env_choice("CONDUCTOR_LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]),
    form=env_choice("CONDUCTOR_LOG_FORMAT", "LINE", FORMATS),
) | {
    "loggers": {
        "gunicorn.error": {"level": "INFO", "propagate": True},
        "gunicorn.access": {"level": "WARNING", "propagate": False},  # the proxy keeps the list of requests
    }
}
