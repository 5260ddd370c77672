"""The SLURM adapter on a real SLURM, with and without accounting."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from jobs.executors.slurm.client import HandedOver, Slurm
from jobs.executors.slurm.errors import Refusal, SchedulerError
from jobs.executors.slurm.parse import Status
from jobs.executors.slurm.scripts import TokenFolder
from jobs.executors.slurm.site import Site, SlurmOrder, job_name
from jobs.executors.slurm.states import Standing
from jobs.shells import LocalShell
from jobs.tests.cluster.slurm import SlurmCluster
from record.errors import AdapterError

pytestmark = pytest.mark.slow
SINCE = datetime.now(UTC) - timedelta(hours=1)


class Bench:
    """One cluster and one folder; submits small scripts and waits for what becomes of them."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.client = Slurm(LocalShell(), Site(conf_path=cluster.env["SLURM_CONF"]))

    def order(self, body: str, *, token: str = "", lines: str = "", **given: object) -> SlurmOrder:
        token = token or f"j{uuid4().hex[:12]}x"
        wanted = {
            "token": token, "generation": 1, "script": f"#!/bin/bash\n{lines}{body}\n", "script_name": "work.slurm",
            "work_dir": str(self.folder), "job_folder": f"{self.folder}/jobs",
            "environment": {"PATH": "/usr/bin:/bin", "CONDUCTOR_TOKEN": token}, "environment_lines": "",
            "stdout_path": f"{self.folder}/{token}.out", "stderr_path": f"{self.folder}/{token}.err",
            "job_name": job_name(phase="align", token=token), "time_limit_s": 120,
        }  # fmt: skip
        return SlurmOrder(**(wanted | given))  # type: ignore[arg-type]

    def submit(self, order: SlurmOrder) -> str:
        native_id = self.client.submit(order).native_id
        assert native_id
        return native_id

    def status(self, native_id: str, **given: dict[str, int]) -> Status | None:
        return self.client.poll([native_id], since=SINCE, **given).statuses.get(native_id)

    def until(self, native_id: str, standing: Standing, *, within_s: float = 20, **given: dict[str, int]) -> Status:
        deadline = time.monotonic() + within_s
        while (status := self.status(native_id, **given)) is None or status.meaning.standing != standing:
            assert time.monotonic() < deadline, status
            time.sleep(0.1)
        return status

    def folder_of(self, order: SlurmOrder) -> TokenFolder:
        return self.client.read_folders([order.folder])[1][order.folder]

    def ran(self) -> list[str]:
        path = self.folder / "ran"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def bench(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(slurm, tmp_path)
    slurm.call("scancel", "--user=root")


def test_a_job_runs_once_and_its_end_is_known(bench: Bench) -> None:
    order = bench.order("echo ran >> ran; echo said; echo complained >&2; exit 3")
    native_id = bench.submit(order)

    status = bench.until(native_id, Standing.ENDED)

    assert (status.meaning.event, status.name) == ("fail", order.job_name)
    seen = bench.folder_of(order)
    assert seen.ends_of(native_id)[""][0] == 3
    assert seen.owner == f"{native_id}.1"
    assert seen.streams[native_id] == (order.stdout_path, order.stderr_path)
    assert Path(order.stdout_path).read_text() == "said\n"
    assert bench.client.submit(order) == HandedOver(native_id=native_id)
    assert bench.ran() == ["ran"]


def test_nothing_of_ours_travels_but_what_is_given(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "hush")
    order = bench.order("env > seen", environment={"PATH": "/usr/bin:/bin", "GIVEN": "a, b=c\nd"})
    bench.until(bench.submit(order), Standing.ENDED)
    seen = (bench.folder / "seen").read_text()
    assert "hush" not in seen
    assert "GIVEN=a, b=c\nd\n" in seen


def test_own_log_lines_stay_and_their_folder_is_made(bench: Bench) -> None:
    lines = "#SBATCH --output=logs/%x_%j.out\n#SBATCH --gres=gpu:1\n"
    order = bench.order("echo said; echo gpu $CUDA_VISIBLE_DEVICES", lines=lines)
    native_id = bench.submit(order)
    assert bench.until(native_id, Standing.ENDED).meaning.event == "succeed"
    path = bench.folder / "logs" / f"{order.job_name}_{native_id}.out"
    assert path.read_text() == "said\ngpu 0\n"
    assert bench.folder_of(order).streams[native_id] == (str(path), str(path))


def test_a_job_is_found_by_its_name(bench: Bench) -> None:
    order = bench.order("sleep 60")
    assert bench.client.look_up(order.job_name, since=SINCE) == []
    native_id = bench.submit(order)
    (found,) = bench.client.look_up(order.job_name, since=SINCE)
    assert found.job_id == native_id


def test_unknown_ids_are_not_seen(bench: Bench) -> None:
    native_id = bench.submit(bench.order("sleep 60"))
    assert bench.client.poll(["987654"], since=SINCE).statuses == {}
    assert set(bench.client.poll([native_id, "987654"], since=SINCE).statuses) == {native_id}


def test_cancelling_is_verified(bench: Bench) -> None:
    order = bench.order("trap '' TERM; sleep 60; sleep 60")
    native_id = bench.submit(order)
    bench.until(native_id, Standing.RUNNING)

    deadline = time.monotonic() + 20
    while not bench.client.cancel(native_id, order.job_name):
        assert time.monotonic() < deadline
        time.sleep(0.2)

    assert bench.until(native_id, Standing.ENDED).meaning.event == "cancel"


def test_another_job_under_that_id_is_left_alone(bench: Bench) -> None:
    native_id = bench.submit(bench.order("sleep 60"))
    bench.client.cancel(native_id, "align-of-another")
    time.sleep(1)
    status = bench.status(native_id)
    assert status is not None
    assert status.meaning.standing != Standing.ENDED


@pytest.mark.parametrize(
    ("site", "lines", "words"),
    [
        ({"partition": "nowhere"}, "", "Invalid partition name specified"),
        ({}, "#SBATCH --gres=fpga:1\n", "Invalid generic resource"),
        ({}, "#SBATCH --constraint=nope\n", "Invalid feature specification"),
        ({}, "#SBATCH --mem=900G\n", "Memory specification can not be satisfied"),
        ({}, "#SBATCH --gres=gpu:h100:1\n", "Requested node configuration is not available"),
        ({}, "#SBATCH --time=abc\n", "Invalid --time specification"),
        ({}, "#SBATCH --nonsense\n", "unrecognized option"),
    ],
)
def test_refusals_are_told_in_slurms_own_words(bench: Bench, site: dict[str, str], lines: str, words: str) -> None:
    order = bench.order("true", lines=lines)
    client = Slurm(LocalShell(), Site(conf_path=bench.cluster.env["SLURM_CONF"], **site))
    with pytest.raises(SchedulerError, match=words) as caught:
        client.submit(order)
    assert caught.value.refusal == Refusal.PERMANENT
    (attempt,) = bench.folder_of(order).attempts
    assert (attempt.native_id, attempt.code != 0) == ("", True)
    assert words in attempt.said


def test_a_job_that_can_not_start_says_why(bench: Bench) -> None:
    client = Slurm(LocalShell(), Site(conf_path=bench.cluster.env["SLURM_CONF"], partition="off"))
    native_id = client.submit(bench.order("true")).native_id
    deadline = time.monotonic() + 10
    while "PartitionDown" not in (reason := bench.until(native_id, Standing.WAITING).reason):
        assert time.monotonic() < deadline, reason
        time.sleep(0.2)
    assert reason == (
        "It waits in the queue: its partition is down: nothing starts there until an administrator opens it "
        "(PartitionDown). Somebody has to do something about it."
    )


def test_an_array_ends_when_all_its_tasks_have(bench: Bench) -> None:
    order = bench.order('echo "$SLURM_ARRAY_TASK_ID" >> ran; [ "$SLURM_ARRAY_TASK_ID" != 2 ]', lines="#SBATCH -a 1-3\n")
    native_id = bench.submit(order)

    status = bench.until(native_id, Standing.ENDED, tasks={native_id: 3})

    assert status.meaning.event == "fail"
    assert status.reason.startswith("1 of its 3 tasks: 2.")
    assert sorted(bench.ran()) == ["1", "2", "3"]
    seen = bench.folder_of(order)
    assert {task: code for task, (code, _) in seen.ends_of(native_id).items()} == {"1": 0, "2": 1, "3": 0}


def test_a_requeued_job_goes_on_under_its_id(bench: Bench) -> None:
    order = bench.order(
        'echo "start ${SLURM_RESTART_COUNT:-0}" >> ran; [ -n "$SLURM_RESTART_COUNT" ] || sleep 60', requeue=True
    )
    native_id = bench.submit(order)
    bench.until(native_id, Standing.RUNNING)
    deadline = time.monotonic() + 10
    while not bench.ran():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert bench.cluster.call("scontrol", "requeue", native_id) is not None
    bench.until(native_id, Standing.WAITING)
    time.sleep(2)  # SLURM takes a late word of the first start for one of the second, where that comes at once
    bench.cluster.update(f"JobId={native_id}", "StartTime=now")

    status = bench.until(native_id, Standing.ENDED, within_s=30)
    assert status.meaning.event == "succeed", status
    assert bench.ran() == ["start 0", "start 1"]
    assert bench.folder_of(order).ends_of(native_id)[""][0] == 0


def test_a_twin_does_not_run(bench: Bench) -> None:
    order = bench.order("echo ran >> ran; sleep 1")
    first = bench.submit(order)
    bench.until(first, Standing.RUNNING)
    deadline = time.monotonic() + 10
    while not bench.folder_of(order).owner:
        assert time.monotonic() < deadline
    (Path(order.folder) / "id").unlink()
    twin = bench.order("echo ran >> ran", token=order.token, generation=2)

    assert bench.client.submit(twin) == HandedOver(owner=f"{first}.1")

    (Path(order.folder) / "owner").rename(Path(order.folder) / "hidden")
    second = bench.submit(twin)
    (Path(order.folder) / "hidden").rename(Path(order.folder) / "owner")
    bench.until(second, Standing.ENDED)
    bench.until(first, Standing.ENDED)
    assert bench.ran() == ["ran"]
    assert bench.folder_of(order).ends_of(second) == {}


def test_what_is_closed_never_begins(bench: Bench) -> None:
    order = bench.order("echo ran >> ran")
    assert bench.client.close(order.folder) == "closed"
    assert bench.client.submit(order).owner == "closed"
    batch = Path(order.folder) / "batch.1.sh"
    argv = ("sbatch", "--parsable", "-o", "/dev/null", "--wrap", f"bash {batch}")
    native_id = (bench.cluster.call(*argv) or "").strip()
    bench.until(native_id, Standing.ENDED)
    assert bench.ran() == []
    assert bench.folder_of(order).closed


def test_a_submission_is_made_once_a_generation(bench: Bench) -> None:
    order = bench.order("true")
    (Path(order.folder) / "submit.1").mkdir(parents=True)
    assert bench.client.submit(order) == HandedOver(before=True)


def test_running_out_of_time(bench: Bench) -> None:
    native_id = bench.submit(bench.order("sleep 100"))
    bench.until(native_id, Standing.RUNNING)
    bench.cluster.update(f"JobId={native_id}", "EndTime=now+3")
    assert bench.until(native_id, Standing.ENDED, within_s=50).meaning.event == "time_out"


def test_being_preempted_is_provisional(bench: Bench) -> None:
    native_id = bench.submit(bench.order("sleep 100", lines="#SBATCH --exclusive --nodelist=n1\n"))
    bench.until(native_id, Standing.RUNNING)
    urgent = Slurm(LocalShell(), Site(conf_path=bench.cluster.env["SLURM_CONF"], partition="urgent"))
    assert urgent.submit(bench.order("sleep 1", lines="#SBATCH --exclusive --nodelist=n1\n")).native_id

    status = bench.until(native_id, Standing.ENDED, within_s=30)

    assert (status.meaning.event, status.meaning.provisional) == ("preempt", True)


def test_too_much_memory_without_cgroups(bench: Bench) -> None:
    """The cluster ends it by signal 9, and says only that it failed."""
    body = "python3 -c 'import time; block = bytearray(400 * 1024**2); time.sleep(30)'"
    order = bench.order(body, lines="#SBATCH --mem=50M\n")
    native_id = bench.submit(order)
    status = bench.until(native_id, Standing.ENDED, within_s=40)
    shown = bench.client.show(native_id)
    assert (status.meaning.event, bench.folder_of(order).ends_of(native_id)) == ("fail", {})
    assert "exceeded memory limit" in Path(order.stderr_path).read_text()
    assert shown is not None
    assert shown.meaning.event == "fail"


def test_a_controller_that_is_away_changes_nothing(bench: Bench) -> None:
    order = bench.order("sleep 2")
    native_id = bench.submit(order)
    bench.cluster.controller.stop()
    try:
        with pytest.raises(AdapterError):
            bench.client.poll([native_id], since=SINCE)
        with pytest.raises(AdapterError):
            bench.client.look_up(order.job_name, since=SINCE)
        with pytest.raises(SchedulerError) as caught:
            bench.client.submit(bench.order("true"))
        assert caught.value.refusal == Refusal.AMBIGUOUS
    finally:
        bench.cluster.start_controller()
    bench.until(native_id, Standing.ENDED)


def test_a_cluster_that_is_called_by_its_name(accounting_slurm: SlurmCluster, tmp_path: Path) -> None:
    """On a site with several: every command names the cluster, and ids carry its name."""
    bench = Bench(accounting_slurm, tmp_path)
    bench.client = Slurm(LocalShell(), Site(conf_path=accounting_slurm.env["SLURM_CONF"], cluster="lab"))
    order = bench.order("trap '' TERM; echo ran >> ran; sleep 60", lines="#SBATCH --array=1-2\n")
    native_id = bench.submit(order)
    assert native_id.endswith(";lab")
    bench.until(native_id, Standing.RUNNING, tasks={native_id: 2})
    (found,) = bench.client.look_up(order.job_name, since=SINCE)
    assert bench.client.native_id_of(found.job_id) == native_id
    assert bench.client.submit(order) == HandedOver(native_id=native_id)
    plain = native_id.partition(";")[0]
    shown = bench.client.show(native_id)
    assert shown is not None
    assert (shown.job_id, shown.name) == (plain, order.job_name)
    assert bench.client.show("987654;lab") is None
    assert bench.client.poll(["987654;lab"], since=SINCE).statuses == {}

    deadline = time.monotonic() + 30
    while not bench.client.cancel(native_id, order.job_name):
        assert time.monotonic() < deadline
        time.sleep(0.2)

    assert bench.until(native_id, Standing.ENDED, tasks={native_id: 2}).meaning.event == "cancel"
    while "CANCELLED" not in (bench.cluster.call("sacct", "-X", "-n", "-P", "-j", plain, "-o", "State") or ""):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    since = SINCE.astimezone(UTC)
    rows = bench.client._accounts([f"--jobs={plain}"], since=since, cluster="lab") or []
    assert {(row.job_id, row.name, row.meaning.event) for row in rows} == {(plain, order.job_name, "cancel")}
    assert "gpu up" in bench.client.partitions()
    assert not [line for line in bench.client.partitions() if line.startswith("CLUSTER")]
    assert bench.client.has_accounts()


def test_a_cluster_that_is_not_there_by_that_name(accounting_slurm: SlurmCluster, tmp_path: Path) -> None:
    bench = Bench(accounting_slurm, tmp_path)
    bench.client = Slurm(LocalShell(), Site(conf_path=accounting_slurm.env["SLURM_CONF"], cluster="nowhere"))
    with pytest.raises(SchedulerError, match="nowhere.*invalid entry for --cluster") as caught:
        bench.client.submit(bench.order("true"))
    assert caught.value.refusal == Refusal.BUSY  # SLURM does not tell it from one that is away
    with pytest.raises(AdapterError):
        bench.client.poll(["1;nowhere"], since=SINCE)


def test_what_the_cluster_has(bench: Bench) -> None:
    assert "gpu up" in bench.client.partitions()
    assert "off down" in bench.client.partitions()
    assert bench.client.has_accounts() == bench.cluster.accounting
