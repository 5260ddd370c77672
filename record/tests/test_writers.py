"""Twenty writers at once, in four processes, leave one dense chain."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from record import heads
from record.models import ChainHead, Decision, Lab
from record.tests.factories import People, decide
from record.tests.harness import database_environment
from record.verify import verify_record

PROCESSES, THREADS, EACH = 4, 5, 3

WRITER = """
import sys, threading
import django
django.setup()
from django.contrib.auth.models import User
from django.db import connection
from record.models import Lab
from record.tests.factories import decide

lab, user = Lab.objects.get(slug="tomography"), User.objects.get(username="reviewer")
connection.close()
start, failures = threading.Barrier({threads}), []

def write():
    try:
        start.wait()
        for _ in range({each}):
            decide(lab, user, reason="at the same time")
    except BaseException as error:
        failures.append(error)
    finally:
        connection.close()

threads = [threading.Thread(target=write) for _ in range({threads})]
print("ready", flush=True)
sys.stdin.readline()
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(str(failures) if failures else 0)
"""


@pytest.mark.django_db(transaction=True)
def test_twenty_writers_at_once_leave_one_dense_chain(lab: Lab, people: People, tmp_path: Path) -> None:
    decide(Lab.objects.get(slug="other"), people.outsider)
    env = (
        os.environ
        | database_environment()
        | {
            "DJANGO_SETTINGS_MODULE": "conductor_site.settings",
            "CONDUCTOR_DATA": str(settings.RECORD_HEADS.parent),
        }
    )
    code = WRITER.format(threads=THREADS, each=EACH)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=env,
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    try:
        for writer in writers:
            assert writer.stdout and writer.stdout.readline() == "ready\n"
        outcomes = [start(writer) for writer in writers] and [writer.communicate(timeout=60) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
    assert [writer.returncode for writer in writers] == [0] * PROCESSES, outcomes

    total = PROCESSES * THREADS * EACH
    numbers = Decision.objects.filter(lab=lab).order_by("number").values_list("number", flat=True)
    assert list(numbers) == list(range(1, total + 1))
    assert ChainHead.objects.get(lab=lab).count == total
    assert list(verify_record(Lab.objects.all())) == []
    assert sorted(head.number for head in heads.stream() if head.lab_id == lab.pk) == list(numbers)


def start(writer: subprocess.Popen) -> None:
    assert writer.stdin
    writer.stdin.write("go\n")
    writer.stdin.flush()
