import gc
import os

from django.apps import AppConfig

from conductor_site.conduct.busy import CLUSTER_VARIABLE, connect


class ConductorSiteConfig(AppConfig):
    name = "conductor_site"
    verbose_name = "Site"

    def ready(self) -> None:
        from conductor_site import database  # noqa: F401 - registers its check

        if CLUSTER_VARIABLE in os.environ:  # a task cluster of `conduct`: its workers say when they are at work
            connect()
            _share_with_workers()


def _share_with_workers() -> None:
    """Import what tasks use before workers are forked, and keep the collector off it: they then share its memory.

    The checks are left out when `conduct` starts the cluster, since they import every page: 14 MB that no task needs.
    """
    from conductor_site import tasks  # noqa: F401
    from conductor_site.conduct.due import DueTable

    DueTable()
    gc.collect()
    os.register_at_fork(before=gc.freeze)
