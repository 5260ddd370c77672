"""What a run's phases need on its target: looked at on demand, kept with the run, asked at its setup gate."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from gates.errors import InvalidAnswers
from gates.models import Gate
from gates.services import answer_gate
from jobs.hosts import this_host
from jobs.models import Cluster, Target
from record.errors import AdapterError, NotAllowed
from record.models import Door, Event
from record.services import Author
from runs.models import Phase, Preflight, Run
from runs.preflight.findings import Finding
from runs.preflight.tools import conda_lines, lookups, missing_partitions, version_in
from runs.services import preflight
from runs.services.export import export_state, write_state_file
from runs.services.preflight import (
    AGAIN_S,
    has_environment,
    last_findings,
    look_first,
    nudge_looks,
    probe_run,
)
from runs.statefile.read import STATE_FILE
from runs.tests.factories import FILES, HEAD, IMPORT, MANIFEST, OVERLAY, Bench, phase_of, states, write_pipeline

NEEDS = "    required_tools: [WarpTools, AreTomo2, headerPyTom, ChimeraX]\n    required_conda: [WARP_ENV, PYTOM_ENV]\n"
CONF = FILES["pipeline.conf"] + "WARP_DIR={0}/warp\nWARP_ENV=warp\nPYTOM_ENV=pytom\nARETOMO_EXE=/path/to/AreTomo2\n"
GATES = "gates:\n  - {key: setup, protocol: setup, before: 1, title: Settings}\n"
CONDA = """#!/bin/bash
# conda run --no-capture-output -n NAME command ...
[ -d "@ENVS/$4" ] || { echo "EnvironmentLocationNotFound: Not a conda environment: $4" >&2; exit 1; }
PATH="@ENVS/$4:$PATH" exec "${@:5}"
"""


def program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body if body.startswith("#!") else f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def site(bench: Bench) -> Path:
    """A site with conda, two environments and WARP's fork; AreTomo2 is there, and no conf says where."""
    site = bench.folder / "site"
    program(site / "bin/conda", CONDA.replace("@ENVS", str(site / "envs")))
    for name in ("warp", "pytom"):
        program(site / f"envs/{name}/python", "echo Python 3.11.7")
    program(site / "envs/pytom/headerPyTom", "echo headerPyTom")
    program(
        site / "warp/WarpTools",
        '[ "$2" = --help ] && echo "  --dont_correct_ctf_3d  keep it" || echo "WarpTools 2.0.0"',
    )
    program(site / "AreTomo2", "echo AreTomo2 version 1.1.2")
    Target.objects.filter(pk=bench.target.pk).update(environment_lines=f"export PATH={site}/bin:$PATH")
    bench.target.refresh_from_db()
    return site


@pytest.fixture
def run(bench: Bench, site: Path) -> Run:
    manifest = MANIFEST.replace("    outputs: [tomostar/*.tomostar]\n", NEEDS + "    outputs: [tomostar/*.tomostar]\n")
    write_pipeline(
        bench.folder / "pipeline",
        **{
            "pipeline.conf": CONF.format(site),
            "scripts/manifest.yml": manifest,
            "scripts/conductor.yml": OVERLAY.replace("gates:\n", GATES),
        },
    )
    run = bench.begin(species=["alpha"])
    bench.drive()  # which looks at the target first
    return run


def probe(bench: Bench, run: Run) -> dict[str, Finding]:
    run.target.refresh_from_db()
    probe_run(run=Run.objects.get(pk=run.pk), author=bench.operator)
    return {each.key: each for each in last_findings(run)}


def answer(bench: Bench, verdict: str = "approve", **answers: object) -> None:
    gate = Gate.objects.get(key="setup", state="open")
    values = {"DIM": 32, "alpha__MIN_SCORE": 0.5} if verdict == "approve" else {}
    answer_gate(
        gate_id=gate.pk, author=bench.reviewer, verdict=verdict, answers=values | answers, reason="looked at it",
        seen_digest=gate.digest,
    )  # fmt: skip


def test_what_is_there_is_kept_with_its_version(bench: Bench, run: Run, site: Path) -> None:
    found = {each.key: each for each in last_findings(run)}
    assert {key: each.status for key, each in found.items()} == {
        "work_dir": "ok", "space": found["space"].status, "WARP_ENV": "ok", "PYTOM_ENV": "ok", "WarpTools": "ok",
        "AreTomo2": "missing", "headerPyTom": "ok", "warp_fork": "ok",
    }  # fmt: skip
    assert (found["WarpTools"].found, found["WarpTools"].version) == (f"{site}/warp/WarpTools", "2.0.0")
    assert found["WARP_ENV"].version == "3.11.7"
    assert found["headerPyTom"].found == f"{site}/envs/pytom/headerPyTom"
    event = Event.objects.get(kind="run.probe")
    assert (
        "looked at by pipeline" in event.message
        and event.data["versions"]["WarpTools"] == "2.0.0"
        and "1 are missing" in event.message
    )


def test_what_is_missing_is_a_question_at_the_setup_gate(bench: Bench, run: Run, site: Path) -> None:
    with pytest.raises(InvalidAnswers, match="ARETOMO_EXE"):
        answer(bench)
    answer(bench, ARETOMO_EXE=f"{site}/AreTomo2")
    bench.drive()
    run.refresh_from_db()
    assert run.conf["ARETOMO_EXE"] == f"{site}/AreTomo2"
    found = probe(bench, run)
    assert (found["AreTomo2"].status, found["AreTomo2"].version) == ("ok", "1.1.2")
    assert Preflight.objects.filter(run=run).count() == 2


@pytest.mark.parametrize(
    ("breaks", "key", "words"),
    [
        ("fork", "warp_fork", "is not the fork of WARP that OPUS-ET needs"),
        ("environment", "PYTOM_ENV", "The conda environment pytom can't be used: EnvironmentLocationNotFound"),
        ("conda", "WARP_ENV", "conda is not found on target here"),
        ("lines", "WARP_ENV", "conda is not found on target here"),
    ],
)
def test_what_stands_in_the_way_keeps_the_gate_shut(
    bench: Bench, run: Run, site: Path, breaks: str, key: str, words: str
) -> None:
    if breaks == "fork":
        program(site / "warp/WarpTools", 'echo "WarpTools 2.0.0, upstream"')
    elif breaks == "environment":
        (site / "envs/pytom").rename(site / "envs/other")
    elif breaks == "conda":
        (site / "bin/conda").unlink()
    else:
        Target.objects.update(environment_lines="")
    found = probe(bench, run)[key]
    assert found.status == "blocks" and words in found.message and found.remedy
    with pytest.raises(InvalidAnswers, match="Then look again"):
        answer(bench, ARETOMO_EXE=f"{site}/AreTomo2", **{f"in-the-way__{key}": True})
    answer(bench, "reject")
    bench.drive()
    assert states(run)["1"] == "failed"


def test_mended_and_looked_at_again_it_opens(bench: Bench, run: Run, site: Path) -> None:
    (site / "envs/pytom").rename(site / "envs/other")
    probe(bench, run)
    (site / "envs/other").rename(site / "envs/pytom")
    probe(bench, run)
    answer(bench, ARETOMO_EXE=f"{site}/AreTomo2")


def test_the_setup_gate_waits_for_the_first_look(bench: Bench, run: Run, client: Client) -> None:
    other = bench.begin("other", species=["alpha"])
    assert states(other)["1"] == "pending" and not Gate.objects.filter(root_uuid=other.uuid).exists()
    client.force_login(bench.people.operator)
    assert "It is being looked at" in client.get(f"/runs/{other.pk}/preflight/").content.decode()
    assert "The target is being looked at" in client.get(f"/runs/{other.pk}/").content.decode()

    assert nudge_looks() == 1 and nudge_looks() == 0, "while a task is at it, no other is begun"
    assert look_first(other.pk) and not look_first(other.pk)
    assert states(other)["1"] == "checkpoint"
    assert Preflight.objects.get(run=other).by_name == "pipeline"
    assert "The target is being looked at" not in client.get(f"/runs/{other.pk}/").content.decode()


def test_a_look_of_which_nothing_came_is_begun_again(bench: Bench, run: Run) -> None:
    bench.begin("other", species=["alpha"])
    assert nudge_looks() == 1
    with time_machine.travel(timezone.now() + timedelta(seconds=AGAIN_S + 1)):
        assert nudge_looks() == 1


def test_a_person_who_looks_is_quicker(bench: Bench, run: Run) -> None:
    other = bench.begin("other", species=["alpha"])
    probe(bench, other)
    assert states(other)["1"] == "checkpoint" and Preflight.objects.get(run=other).by_name == "operator"
    assert nudge_looks() == 0 and not look_first(other.pk)


def test_a_target_that_cannot_be_asked_is_told_and_holds_up_nothing(
    bench: Bench, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(run: Run) -> None:
        raise AdapterError("The target can't be reached.", transient=True)

    monkeypatch.setattr(preflight, "look_at_target", away)
    other = bench.begin("other", species=["alpha"])
    assert look_first(other.pk) and states(other)["1"] == "checkpoint"
    assert [(each.status, each.message) for each in last_findings(other)] == [
        ("unknown", "The target can't be reached.")
    ]
    assert has_environment(run) and not has_environment(other)


def test_a_replay_and_a_pipeline_that_names_no_tools_need_no_look(bench: Bench, run: Run) -> None:
    replay = bench.begin("replay", species=["alpha"], replay=True, work_dir=str(bench.folder / "site"))
    plain = bench.begin("plain", pipeline=bench.add_pipeline(write_pipeline(bench.folder / "plain"), "plain"))
    assert not Preflight.objects.filter(run__in=[replay, plain]).exists()


def test_a_folder_that_cannot_be_written_stands_in_the_way(bench: Bench, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(work_dir=f"{bench.folder}/pipeline/pipeline.conf/x")
    assert probe(bench, run)["work_dir"].status == "blocks"


def test_a_partition_that_the_cluster_lacks_stands_in_the_way(bench: Bench) -> None:
    commands = bench.folder / "commands"
    for name in ("squeue", "sacct", "scancel", "sbatch", "scontrol"):
        program(commands / name, "exit 0")
    program(commands / "sinfo", "echo 'gpu up'; echo 'cpu up'")
    head = HEAD.replace("#SBATCH --mem=100M\n", "#SBATCH --mem=100M\n#SBATCH -p a100\n")
    write_pipeline(bench.folder / "pipeline", **{"scripts/import.slurm": head + IMPORT})
    target = Target.objects.create(
        lab=bench.lab, name="cluster", kind="slurm", host=this_host(), roots=[str(bench.folder)],
        job_folder=str(bench.folder / "cluster_jobs"),
    )  # fmt: skip
    Cluster.objects.create(target=target, commands_folder=str(commands))
    run = bench.begin(target=target)
    found = probe(bench, run)["partitions"]
    assert found.status == "blocks" and found.message == "The cluster has no partition a100."
    assert "gpu, cpu" in found.remedy
    Cluster.objects.filter(target=target).update(partition="gpu")
    assert probe(bench, run)["partitions"].status == "ok"
    program(commands / "sinfo", "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert probe(bench, run)["partitions"].status == "unknown"


def test_only_operators_look_and_looking_changes_nothing_else(bench: Bench, run: Run) -> None:
    with pytest.raises(NotAllowed):
        probe_run(run=run, author=Author.person(bench.people.reviewer, Door.WEB))
    before = list(Phase.objects.values_list("pk", "state"))
    probe(bench, run)
    assert list(Phase.objects.values_list("pk", "state")) == before


def test_the_page_and_the_api(bench: Bench, run: Run, client: Client) -> None:
    client.force_login(bench.people.operator)
    assert "by pipeline" in client.get(f"/runs/{run.pk}/preflight/").content.decode()
    assert client.post(f"/runs/{run.pk}/preflight/").status_code == 302
    page = client.get(f"/runs/{run.pk}/preflight/").content.decode()
    assert "AreTomo2 is not found on target here." in page and "Say in ARETOMO_EXE where it is." in page
    made = client.post(f"/api/v1/runs/{run.pk}/probe/", {}, content_type="application/json").json()
    assert {each["key"]: each["status"] for each in made["findings"]}["AreTomo2"] == "missing"


def test_the_state_file_tells_what_was_found(bench: Bench, run: Run, site: Path) -> None:
    write_state_file(run=run, author=bench.operator)
    probe(bench, run)
    export_state(run.pk)
    state = json.loads((Path(run.work_dir) / STATE_FILE).read_text())
    assert state["preflight"] == {"status": "done"}
    assert state["environment"]["warp_fork_ok"] is True
    assert state["environment"]["tools"]["AreTomo2"] is None
    assert state["environment"]["conda"] == {"warp_env": "warp", "pytom_env": "pytom"}
    assert phase_of(run, "1").state == "checkpoint"


def test_where_tools_are_looked_up() -> None:
    values = {"WARP_DIR": "/opt/warp/", "WARP_ENV": "/conda/envs/warp", "ARETOMO_EXE": "AreTomo2"}
    by_folder, by_conda = lookups("MCore", values)
    assert by_folder[-1] == "/opt/warp/MCore" and by_conda[:5] == [
        "conda", "run", "--no-capture-output", "-p", "/conda/envs/warp",
    ]  # fmt: skip
    assert lookups("AreTomo2", values)[0][-1] == "AreTomo2" and lookups("dsdsh", values) == []
    assert lookups("a; rm -rf /", {})[0][-1] == "a; rm -rf /"
    path, env = lookups("torchrun", {"OPUSET_ENV": "opuset"}, ["OPUSET_ENV", "PYTOM_ENV"])
    assert path[0] == "/bin/bash" and env[:5] == ["conda", "run", "--no-capture-output", "-n", "opuset"]


def test_conda_is_made_known_as_the_scripts_do() -> None:
    assert conda_lines({}) == ""
    assert conda_lines({"CONDA_LIB": "/opt/my conda/lib/"}) == (
        "[ ! -r '/opt/my conda/lib/../etc/profile.d/conda.sh' ] || . '/opt/my conda/lib/../etc/profile.d/conda.sh'"
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [("WarpTools 2.0.0dev31", "2.0.0dev31"), ("Python 3.11.7", "3.11.7"), ("no version", ""), ("at 12", "")],
)
def test_versions(text: str, version: str) -> None:
    assert version_in(text) == version


def test_the_default_partition_is_starred() -> None:
    assert missing_partitions(["gpu", "cpu"], ["gpu*", "cpu"]) == []
    assert missing_partitions(["gpu", "a100"], ["gpu*"]) == ["a100"]
