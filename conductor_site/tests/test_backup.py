"""A backup that is made while others write, put back elsewhere, holds: the record, and what was shown."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conductor_site.tests.installation import Installation
from conductor_site.tests.stage import LONG_S, ROOT
from conductor_site.tests.stores import new_store

pytestmark = pytest.mark.slow

POSTGRESQL = "DATABASE_URL" in os.environ
DATABASE = "database.dump" if POSTGRESQL else "database.sqlite3"

# Decides on new evidence again and again, until it is told to stop; says how often.
WRITER = """
import sys, time, django; django.setup()
from pathlib import Path
from django.contrib.auth.models import User
from django.db import transaction
from conductor_site.tests.world import make_evidence, make_gate
from record.models import Lab
from record.tests.factories import decide
from runs.models import Phase
lab, phase, person = Lab.objects.get(slug="tomography"), Phase.objects.first(), User.objects.get(username="reviewer")
count = 0
while not Path(sys.argv[1]).exists():
    count += 1
    with transaction.atomic():
        gate = make_gate(lab, phase, person, key=f"written_{count}")
        piece = make_evidence(gate, name="table.tsv", content=f"pick\\t{count}\\n".encode(), kind="table")
        shown = {"digest": "d" * 64, "items": {piece.name: piece.sha256}}
        decide(lab, person, subject=gate.subject(), gate_uuid=gate.uuid, evidence=shown)
    print(count, flush=True)
    time.sleep(0.02)  # some hundreds are enough to look through
"""

# Every piece of evidence and output of an agent, read as a page would, and every digest that a decision names, looked
# for in the store.
SHOW = """
import django; django.setup()
from gates.models import Evidence
from gates.store import path_of, read_evidence
from jobs.agents.models import Ask
from jobs.agents.store import read
from record.models import Decision
for piece in Evidence.objects.all():
    read_evidence(piece)
assert [read(ask.raw_sha256) for ask in Ask.objects.all()] != []
named = [digest for row in Decision.objects.all() for digest in row.evidence.get("items", {}).values()]
print(Evidence.objects.count(), len(named), all(path_of(digest).exists() for digest in named))
"""


# Restores, and dies at the moment when the database is back and nothing is held yet.
KILLED_RESTORE = """
import os, signal, sys, django; django.setup()
from pathlib import Path
from conductor_site.keeping import restore
restore.call_command = lambda *words, **options: (print("killed", flush=True), os.kill(os.getpid(), signal.SIGKILL))
pid = os.fork()
if not pid:
    restore.restore_backup(Path(sys.argv[1]))
assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
"""

# Restores while a web server is asked something, which makes an empty database.
HURRIED_RESTORE = """
import sys, django; django.setup()
from pathlib import Path
from conductor_site.keeping import restore
put_files = restore._put_files
def put(folder, restored):
    put_files(folder, restored)
    Path(sys.argv[2]).write_text("of a web server")
restore._put_files = put
try:
    restore.restore_backup(Path(sys.argv[1]))
except restore.ConductorError as error:
    print(error.message)
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    site = Installation(tmp_path_factory.mktemp("filled"))
    site.fill()
    yield site
    site.store.drop()


@pytest.fixture
def site(filled: Installation, tmp_path: Path) -> Iterator[Installation]:
    """An installation with one of each thing."""
    data = tmp_path / "site" / "var"
    shutil.copytree(filled.data, data, ignore=shutil.ignore_patterns("conductor.sqlite3*"))
    site = Installation(tmp_path / "site", filled.store.copy(data))
    yield site
    site.store.drop()


@pytest.fixture(scope="module")
def first_backup(filled: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of what each site begins with."""
    return make(filled, tmp_path_factory.mktemp("backed_up") / "backups")


@pytest.fixture
def made(first_backup: Path, tmp_path: Path) -> Path:
    """A copy of it, in a folder of backups of its own."""
    shutil.copytree(first_backup.parent, tmp_path / "backups")
    return tmp_path / "backups" / first_backup.name


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Installation]:
    """One without a database, or with an empty one."""
    empty = Installation(tmp_path / "empty")
    yield empty
    empty.store.drop()


@contextmanager
def writing(site: Installation) -> Iterator[subprocess.Popen[str]]:
    """Inside, somebody decides on new evidence all the time."""
    stop = site.folder / "stop"
    argv = [sys.executable, "-c", WRITER, str(stop)]
    writer = subprocess.Popen(argv, cwd=ROOT, env=site.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout and writer.stdout.readline() == "1\n"
        yield writer
    finally:
        stop.touch()
        writer.communicate(timeout=LONG_S)


def backups(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name[0].isdigit())


def await_a_later_second(known: set[Path]) -> None:
    """A backup a second has its own name."""
    while known and time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) <= max(path.name for path in known):
        time.sleep(0.1)


def make(site: Installation, folder: Path, *options: str) -> Path:
    """Make a backup; its folder."""
    known = set(backups(folder)) if folder.exists() else set()
    await_a_later_second(known)
    site.manage("backup", str(folder), *options)
    (made,) = set(backups(folder)) - known
    return made


KEEP = """
import django; django.setup()
from record.models import Channel, Delivery, Event
from record.notices.secrets import keep_secret
keep_secret("CONDUCTOR_NOTICE__TOMOGRAPHY__WEBHOOK_ELN", "whsec_a")
Delivery.objects.update(state="pending", ended_at=None)
"""
READ = """
import django; django.setup()
from record.models import Delivery
from record.notices.secrets import read_secret
print(read_secret("CONDUCTOR_NOTICE__TOMOGRAPHY__WEBHOOK_ELN"), *Delivery.objects.values_list("state", "doubtful"))
"""


def test_secrets_of_channels_come_back_and_what_is_owed_may_have_arrived(
    site: Installation, empty: Installation, tmp_path: Path
) -> None:
    site.python(KEEP)
    made = make(site, tmp_path / "backups")
    empty.manage("restore", str(made))
    assert empty.python(READ).strip() == "whsec_a ('pending', True)"
    (kept,) = (empty.data / "secrets").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_what_is_backed_up_during_writes_holds_when_it_is_put_back(
    site: Installation, empty: Installation, tmp_path: Path
) -> None:
    with writing(site) as writer:
        first = make(site, tmp_path / "backups")
        second = make(site, tmp_path / "backups")
    assert writer.returncode == 0
    counts = [json.loads((folder / "manifest.json").read_text())["evidence"] for folder in (first, second)]
    assert 2 <= counts[0] < counts[1]

    told = empty.manage("restore", str(second))

    assert "The record is whole." in told and "Nothing is started until" in told
    assert empty.manage("verify_record").endswith("The record is whole.\n")
    pieces, named, there = empty.python(SHOW).split()
    assert counts[0] <= int(pieces) <= counts[1]  # files are copied after the database: there may be more of them
    assert (int(named), there) == (int(pieces) - 1, "True")
    assert (empty.data / "secret_key").read_bytes() == (site.data / "secret_key").read_bytes()
    assert empty.manage("check", "--database", "default").endswith("no issues (0 silenced).\n")
    assert "Work goes on." in empty.manage("resume")
    assert site.manage("verify_record").endswith("The record is whole.\n")


def test_a_backup_is_its_owners_alone(made: Path, tmp_path: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o077 for path in made.iterdir() if path.is_file()}
    assert {"manifest.json", DATABASE, "secret_key", "record_heads.jsonl", "evidence.txt", "agents.txt"} == modes.keys()
    assert set(modes.values()) == {0} and (tmp_path / "backups").stat().st_mode & 0o077 == 0


def test_the_heads_that_outlived_a_lost_database_tell_what_is_lost(
    site: Installation, made: Path, tmp_path: Path
) -> None:
    with writing(site):
        pass
    again = Installation(site.folder, new_store(tmp_path), CONDUCTOR_DATA=str(site.data))

    told = again.manage("restore", str(made), fails=True)
    again.store.drop()

    assert "tell which decisions are lost" in told
    assert "the heads kept outside the database know of" in told and "that the database has not" in told


def test_nothing_is_put_over_a_database(site: Installation, made: Path) -> None:
    told = site.manage("restore", str(made), fails=True)
    assert "A database is there already" in told or "The database is not empty" in told
    assert site.manage("verify_record").endswith("The record is whole.\n")
    assert "Nothing was being drained." in site.manage("resume")


@pytest.mark.skipif(POSTGRESQL, reason="SQLite keeps its log in a file beside the database")
def test_a_log_that_was_left_of_another_database_is_in_the_way_too(made: Path, empty: Installation) -> None:
    (empty.data / "conductor.sqlite3-wal").touch()
    assert "conductor.sqlite3-wal" in empty.manage("restore", str(made), fails=True)


def test_a_restore_that_was_cut_off_starts_nothing(made: Path, empty: Installation, tmp_path: Path) -> None:
    assert "killed" in empty.python(KILLED_RESTORE, str(made))
    told = empty.manage("conduct", "--without-cluster", fails=True)
    assert "was cut off before it was told to start nothing" in told and "Traceback" not in told
    again = Installation(empty.folder, new_store(tmp_path), CONDUCTOR_DATA=str(empty.data))
    told = again.manage("restore", str(made))
    again.store.drop()
    assert "The record is whole." in told and not (empty.data / "restoring").exists()


@pytest.mark.skipif(POSTGRESQL, reason="there the tables come in one transaction")
def test_a_database_that_is_made_meanwhile_is_not_replaced(made: Path, empty: Installation) -> None:
    there = empty.data / "conductor.sqlite3"
    assert "A database is there already" in empty.python(HURRIED_RESTORE, str(made), str(there))
    assert there.read_text() == "of a web server"
    assert [path.name for path in empty.data.iterdir() if "restoring" in path.name] == []


def test_while_a_conduct_runs_nothing_is_restored(made: Path, empty: Installation) -> None:
    with (empty.data / "conduct.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "stop it first" in empty.manage("restore", str(made), fails=True)


def test_a_backup_without_its_database_is_refused_in_words(made: Path, empty: Installation) -> None:
    (made / DATABASE).unlink()
    told = empty.manage("restore", str(made), fails=True)
    assert f"{DATABASE}: No such file or directory" in told and "Traceback" not in told
    assert not (empty.data / "restoring").exists()


def test_a_backup_that_was_altered_is_refused_or_told(made: Path, empty: Installation) -> None:
    (piece,) = (made.parent / "evidence").glob("??/*")
    piece.write_bytes(b"another picture")
    whole = (made / DATABASE).read_bytes()
    (made / DATABASE).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "is not what it was when the backup was made" in empty.manage("restore", str(made), fails=True)
    (made / DATABASE).write_bytes(whole)
    told = empty.manage("restore", str(made), fails=True)
    assert "It is back, but not whole" in told and f"evidence {piece.name}" in told


def test_a_backup_of_a_later_version_is_refused(made: Path, empty: Installation) -> None:
    manifest = json.loads((made / "manifest.json").read_text())
    manifest["migrations"].append(["runs", "0999_later"])
    (made / "manifest.json").write_text(json.dumps(manifest))
    assert "which knows of runs.0999_later" in empty.manage("restore", str(made), fails=True)
    assert not (empty.data / "evidence").exists()


def test_what_is_no_backup_is_refused_in_words(empty: Installation, tmp_path: Path) -> None:
    assert "is no backup: it has no manifest.json" in empty.manage("restore", str(tmp_path), fails=True)


def test_evidence_that_is_missing_is_told_and_the_rest_is_kept(site: Installation, tmp_path: Path) -> None:
    (piece,) = (site.data / "evidence").glob("??/*")
    piece.unlink()
    told = site.manage("backup", str(tmp_path / "backups"), fails=True)
    assert f"evidence {piece.name}" in told
    assert len(backups(tmp_path / "backups")) == 1


def test_old_ones_are_removed_with_what_only_they_had(site: Installation, made: Path, empty: Installation) -> None:
    root, first = made.parent, made
    stray = root / "evidence" / "00" / ("00" + "a" * 62)
    stray.parent.mkdir(exist_ok=True)
    stray.touch()
    second = make(site, root)
    (root / ".making-20200101T000000Z").mkdir()  # of one that was killed
    third = make(site, root, "--keep", "2")
    assert backups(root) == [second, third] and not first.exists() and not stray.exists()
    assert not (root / ".making-20200101T000000Z").exists()
    assert "The record is whole." in empty.manage("restore", str(third))


def test_a_clock_that_was_set_back_costs_no_backup(site: Installation, made: Path) -> None:
    root, first = made.parent, made
    first.rename(root / "29990101T000000Z")
    told = site.manage("backup", str(root), "--keep", "1")
    (left,) = backups(root)
    assert left.name != "29990101T000000Z" and "Removed: 29990101T000000Z." in told


def test_no_part_of_a_backup_seems_whole(site: Installation, made: Path) -> None:
    root, first = made.parent, made
    code = """
import os, shutil, signal, sys, django; django.setup()
from pathlib import Path
from conductor_site.keeping import backup
remove = shutil.rmtree
def cut_off(path, **options):
    if Path(path).name.endswith(sys.argv[2]):
        (Path(path) / backup.HEADS).unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    remove(path, **options)
backup.shutil.rmtree = cut_off
pid = os.fork()
if not pid:
    backup.make_backup(Path(sys.argv[1]), keep=1)
assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
"""
    await_a_later_second({first})
    site.python(code, str(root), first.name)
    (left,) = backups(root)
    assert left != first and (left / "manifest.json").exists()


def test_a_folder_inside_the_data_is_refused(site: Installation) -> None:
    assert f"lies in {site.data}" in site.manage("backup", str(site.data / "backups"), fails=True)


def test_the_shared_folder_itself_is_no_folder_of_backups(site: Installation, tmp_path: Path) -> None:
    """Its evidence would pass for copies, of which those that no backup lists are removed."""
    shared = tmp_path / "shared"
    shutil.move(site.data / "evidence", shared / "evidence")
    (piece,) = (shared / "evidence").glob("??/*")
    site.environment["CONDUCTOR_SHARED"] = str(shared)
    assert f"lies in {shared}" in site.manage("backup", str(shared), "--keep", "1", fails=True)
    assert piece.exists()


def test_a_disk_that_cannot_be_written_is_told_in_words(site: Installation, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = site.manage("backup", str(tmp_path / "file" / "backups"), fails=True)
    assert "No backup:" in told and "Traceback" not in told
    assert os.path.isfile(tmp_path / "file")
