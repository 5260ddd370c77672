"""A target on this machine and a way to plan jobs on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.services import Resources, plan_job
from record.models import Lab
from record.services import Subject


@pytest.fixture
def target(lab: Lab, tmp_path: Path) -> Target:
    return Target.objects.create(
        lab=lab, name="here", host=this_host(), roots=[str(tmp_path)], job_folder=str(tmp_path / "jobs")
    )


@pytest.fixture
def plan(target: Target, tmp_path: Path) -> Callable[..., Job]:
    """Plan a job; what is given replaces the defaults."""

    def _plan(**given: Any) -> Job:
        wanted = {
            "target": target, "name": "align", "subject": Subject("phase", uuid4(), "phase align", uuid4()),
            "script": "#!/bin/bash\ntrue\n", "script_name": "3.5_align.slurm", "work_dir": str(tmp_path),
            "environment": {}, "purpose": "step", "step": 0, "attempt": 1, "on_final": "",
            "resources": Resources(60, 1024),
        }  # fmt: skip
        with transaction.atomic():
            return plan_job(**(wanted | given))

    return _plan
