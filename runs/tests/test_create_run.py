"""What can't be used is refused in words, and nothing is written."""

from pathlib import Path
from typing import Any

import pytest

from jobs.cluster_models import ShellKind
from jobs.hosts import this_host
from jobs.models import Cluster, Target
from record.errors import BadInput, ConductorError, NotAllowed
from record.models import Door, Event, Lab
from record.services import Author
from runs.models import Run
from runs.services.create import _same_files
from runs.tests.factories import MANIFEST, Bench, write_pipeline


def refused(bench: Bench, words: str, **changes: Any) -> None:
    with pytest.raises(ConductorError, match=words):
        bench.begin(**changes)
    assert not Run.objects.exists()
    assert not Event.objects.exists()
    assert not (bench.folder / "work").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "Give the run a name"),
        ("   ", "Give the run a name"),
        ("x" * 300, "300 characters; at most 120"),
        ("a\nb", "leave it out"),
        ("a\x00b", "leave it out"),
        ("abc\u202egpj", "RIGHT-TO-LEFT OVERRIDE"),
        ("zero\u200bwidth", "ZERO WIDTH SPACE"),
    ],
)
def test_names_that_are_refused(bench: Bench, name: str, words: str) -> None:
    refused(bench, words, name=name, work_dir=str(bench.folder / "work/x"))


@pytest.mark.parametrize("name", ["Lauf Nr. 7", "Zellkörper α", "x" * 120, 'it\'s; "quoted" $HOME .. /'])
def test_names_that_are_fine(bench: Bench, name: str) -> None:
    run = bench.begin(name=f"  {name} ", work_dir=str(bench.folder / "work/x"))
    assert run.name == name
    bench.drive()
    assert run.phases.get(key="1").state == "done"


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("relative/x", "not an absolute path"),
        ("/etc/conductor", "outside the folders"),
        ("{root}/../etc", r"`\.\.`"),
        ("{root}/with space", "white space"),
        ("{root}/a;b", "';'"),
        ("{root}/it's", "quotes"),
        ("{root}/a\u202eb", "unseen"),
        ("{root}/pipeline/pipeline.conf", "can't be written, or isn't a folder"),
        ("{root}/pipeline/pipeline.conf/x", "isn't there and can't be made"),
        ("{root}/" + "x" * 600, "characters long"),
    ],
)
def test_folders_that_are_refused(bench: Bench, folder: str, words: str) -> None:
    refused(bench, words, work_dir=folder.format(root=bench.folder))


def test_a_folder_is_one_runs_own(bench: Bench) -> None:
    first = bench.begin()
    with pytest.raises(BadInput, match="belongs to run first"):
        bench.begin("second", work_dir=first.work_dir)
    with pytest.raises(BadInput, match="a run called first already"):
        bench.begin("first", work_dir=str(bench.folder / "work/other"))
    with pytest.raises(BadInput, match=f"lies in {first.work_dir}, the folder of run first"):
        bench.begin("inside", work_dir=f"{first.work_dir}/inside")
    with pytest.raises(BadInput, match=f"holds {first.work_dir}, the folder of run first"):
        bench.begin("around", work_dir=str(bench.folder))
    assert Run.objects.count() == 1


def test_a_count_is_written_as_scripts_read_it(bench: Bench) -> None:
    assert bench.begin(conf={"DIM": "3e1"}).conf["DIM"] == "30"


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"DIM": "many"}, "Size .DIM. is 'many', which is not a number"),
        ({"DIM": 4}, "at least 8 px is needed"),
        ({"DIM": 5000}, "at most 512 px is possible"),
        ({"DIM": 9.5}, "whole number"),
        ({"DIM": "1_0"}, "not a number"),
        ({"DIM": "\u0663"}, "not a number"),
        ({"DIM": float("nan")}, "not a finite number"),
        ({"NUM_SERIES": "1\nrm -rf ."}, "line break"),
        ({"NOPE": 1}, "NOPE is not a value of pipeline.conf"),
        ({"WORK_DIR": "/"}, "set by the run itself"),
    ],
)
def test_values_that_are_refused(bench: Bench, conf: dict[str, Any], words: str) -> None:
    refused(bench, words, conf=conf)


@pytest.mark.parametrize(
    ("species", "words"),
    [
        (["gamma"], "no species 'gamma'; it has: alpha, beta"),
        (["a b"], "can't be a species"),
        (["alpha", "alpha"], "named twice"),
        (["../x"], "can't be a species"),
    ],
)
def test_species_that_are_refused(bench: Bench, species: list[str], words: str) -> None:
    refused(bench, words, species=species)


def test_an_unknown_preset_is_refused(bench: Bench) -> None:
    refused(bench, "no preset 'huge'; it has: small", preset="huge")


def test_a_broken_pipeline_is_refused(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": "phases: {"})
    refused(bench, "manifest.yml:1: not YAML")


def test_only_operators_begin_runs(bench: Bench) -> None:
    for person in (bench.people.viewer, bench.people.reviewer, bench.people.outsider):
        with pytest.raises(NotAllowed):
            bench.begin(author=Author.person(person, Door.WEB))
    assert not Run.objects.exists()


def test_values_of_the_run_reach_the_scripts_and_preset_goes_first(bench: Bench) -> None:
    run = bench.begin(preset="small", conf={"NUM_SERIES": 1})
    assert run.conf == {"DIM": "16", "NUM_SERIES": "1"}
    bench.drive()
    assert (Path(run.work_dir) / "recon/TS_001.txt").read_text() == "16\n"
    bench.approve("look")
    bench.drive()
    assert (Path(run.work_dir) / "average/alpha/map.txt").read_text() == "0.4\n"


def test_hostile_values_are_never_run(bench: Bench) -> None:
    hostile = "$(touch pwned)`touch pwned`; touch pwned"
    text = "WORK_DIR=\nNUM_SERIES=3\nDIM=32\nNOTE=none\n"
    write_pipeline(bench.folder / "pipeline", **{"pipeline.conf": text})
    run = bench.begin(conf={"NOTE": hostile})
    bench.drive()
    assert run.phases.get(key="1").state == "done"
    assert not list(Path(run.work_dir).rglob("pwned"))


def test_a_species_of_its_own_from_the_pattern(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **{"species.conf": "TM_LABEL=\nMIN_SCORE=0.7\n"})
    run = bench.begin(species=["ribosome"])
    bench.drive()
    bench.approve("look")
    bench.drive()
    assert (Path(run.work_dir) / "average/ribosome/map.txt").read_text() == "0.7\n" * 3


def test_without_species_the_shared_phases_alone_are_run(bench: Bench) -> None:
    run = bench.begin(species=[])
    bench.drive()
    bench.approve("look")
    run.refresh_from_db()
    assert run.state == "done" and {phase.label for phase in run.phases.all()} == {"1", "2"}


def test_without_species_a_shared_phase_cannot_wait_for_lanes(bench: Bench) -> None:
    manifest = MANIFEST + "  4:\n    scripts: [import.slurm]\n"
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    refused(bench, "at least one species", species=[])


def test_a_folder_is_that_of_one_run_by_whichever_target_it_is_reached(bench: Bench) -> None:
    first = bench.begin()
    twin = Target.objects.create(
        lab=bench.lab, name="twin", host=this_host(), roots=bench.target.roots, job_folder=str(bench.folder / "twin")
    )
    with pytest.raises(BadInput, match="belongs to run first"):
        bench.begin("second", target=twin, work_dir=first.work_dir)

    lab = Lab.objects.create(name="Next door", slug="next-door")
    Run.objects.filter(pk=first.pk).update(lab=lab)
    with pytest.raises(BadInput, match=r"belongs to a run of another lab\. Choose another"):
        bench.begin("second", target=twin, work_dir=first.work_dir)

    Target.objects.filter(pk=twin.pk).update(kind="slurm")
    Cluster.objects.create(target=twin, shell=ShellKind.SSH, ssh_host="far")
    assert list(_same_files(twin)) == [twin], "what lies behind a login node is another file system"
