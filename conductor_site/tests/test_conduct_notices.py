"""Notices by a real `conduct` and its task cluster; a mail server that says nothing delays no job."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from conductor_site.tests.stage import ROOT, Stage
from record.tests.servers.smtp import MailHost, SilentHost

pytestmark = pytest.mark.slow

OWE = """
import uuid, django; django.setup()
from record.models import Channel, Lab
from record.services import Subject, record_event
lab = Lab.objects.get()
Channel.objects.get_or_create(
    lab=lab, name="letters", defaults={"kind": "email", "address": "lab@example.org", "topics": ["conductor-log"]}
)
record_event(lab_id=lab.pk, kind="run.finish", subject=Subject("run", uuid.uuid4(), "run one"))
"""


def owe(stage: Stage) -> None:
    """Something notable happens."""
    subprocess.run([sys.executable, "-c", OWE], env=stage.environment, cwd=ROOT, check=True, timeout=120)


def deliveries(stage: Stage, state: str) -> list[dict[str, object]]:
    return [row for row in stage.rows("select * from record_delivery order by id") if row["state"] == state]


@pytest.fixture
def mail_host() -> Iterator[MailHost]:
    host = MailHost()
    host.start()
    yield host
    host.stop()


def test_a_letter_leaves_and_one_leaves_after_the_server_came_back(stage: Stage, mail_host: MailHost) -> None:
    stage.environment |= {"CONDUCTOR_EMAIL_HOST": "127.0.0.1", "CONDUCTOR_EMAIL_PORT": str(mail_host.port)}
    stage.conduct(options=())
    owe(stage)
    stage.until(lambda: len(deliveries(stage, "sent")) == 1, what="the first letter")
    mail_host.stop()
    owe(stage)
    stage.until(lambda: stage.rows("select failures from record_channel")[0]["failures"], what="a failure")
    mail_host.start()
    stage.until(lambda: len(deliveries(stage, "sent")) == 2, what="the second letter")
    assert len(mail_host.box.letters) == 2


def test_a_silent_mail_server_delays_no_job(stage: Stage, silent_host: SilentHost) -> None:
    stage.environment |= {"CONDUCTOR_EMAIL_HOST": "127.0.0.1", "CONDUCTOR_EMAIL_PORT": str(silent_host.port)}
    stage.conduct(options=())
    owe(stage)
    stage.until(lambda: deliveries(stage, "sending"), what="the letter being sent")
    stage.plan("true", count=5)
    stage.until(lambda: {row["state"] for row in stage.rows()} == {"succeeded"}, what="the jobs' ends")
    assert deliveries(stage, "sent") == []
