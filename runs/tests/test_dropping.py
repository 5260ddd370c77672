"""Lanes that something was rejected in, and species that are dropped: what joins the lanes goes on without them."""

import random
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from gates.models import Gate
from jobs.models import Job
from record.errors import BadInput, InvalidTransition, NotAllowed
from record.models import Decision, Event
from runs.gatekeeping import KEEPER
from runs.models import Phase, Run, Species
from runs.services.board import Board
from runs.services.control import cancel_run, retry_phase, run_again_from, skip_phase
from runs.services.dropping import bring_species_back, drop_species
from runs.services.export import state_now
from runs.services.species import add_species
from runs.sweep import start_ready
from runs.tests.factories import HEAD, OVERLAY, Bench, phase_of, states, trace, write_pipeline
from runs.tests.test_at_hand import fate, throw

JOINING = (
    OVERLAY.replace("after: 2", "after: 3a")
    + """
adds:
  4a:
    after: 3b
    description: Population
    requires_species: true
    joins: true
    scripts: [setup.slurm]
    outputs: [m/population.txt]
  4b:
    after: 4a
    description: Member
    requires_species: true
    scripts: [member.slurm]
    outputs: ["m/${TM_LABEL}.txt"]
  4c:
    after: 4b
    description: Refine
    requires_species: true
    joins: true
    in_place: true
    scripts: [refine.slurm]
    outputs: [m/refined.txt]
"""
)
SCRIPTS = {
    "scripts/conductor.yml": JOINING,
    "scripts/setup.slurm": HEAD + 'mkdir -p m; echo "setup $TM_LABEL" >> trace; echo x > m/population.txt\n',
    "scripts/member.slurm": HEAD + 'echo "member $TM_LABEL" >> trace; echo x > "m/$TM_LABEL.txt"\n',
    "scripts/refine.slurm": HEAD + "echo refine >> trace; echo x > m/refined.txt\n",
}


@pytest.fixture
def run(bench: Bench) -> Run:
    """A run of two species which both wait at the gate of their picks; phases 4a and 4c join their lanes."""
    write_pipeline(bench.folder / "pipeline", **SCRIPTS)
    run = bench.begin()
    bench.drive()
    return run


def answer(bench: Bench, label: str, verdict: str = "approve", reason: str = "") -> None:
    gates = {KEEPER.describe(gate): gate for gate in Gate.objects.filter(state="open")}
    bench.answer(gates[f"first, Pick (phase 3a, {label})"], verdict, reason)
    bench.drive()


def species_of(run: Run, label: str) -> Species:
    return run.species.get(label=label)


def test_without_a_no_what_joins_the_lanes_waits_for_all(bench: Bench, run: Run) -> None:
    answer(bench, "beta")
    assert states(run)["3b (beta)"] == "done" and states(run)["4a"] == "pending"
    answer(bench, "alpha")
    run.refresh_from_db()
    assert run.state == "done" and trace(run)[-4:].count("refine") == 1


def test_a_rejected_lane_holds_back_no_other(bench: Bench, run: Run) -> None:
    answer(bench, "alpha", "reject", "not this species")
    answer(bench, "beta")
    assert [line for line in trace(run) if line.split()[0] in ("setup", "member", "refine")] == [
        "setup beta", "member beta", "refine",
    ]  # fmt: skip
    now = states(run)
    assert now["4c"] == "done" and now["3a (alpha)"] == "failed" and now["4b (alpha)"] == "pending"
    run.refresh_from_db()
    assert run.state == "running", "a person has still to say what becomes of it"


def test_where_all_lanes_are_rejected_nothing_is_joined(bench: Bench, run: Run) -> None:
    answer(bench, "alpha", "reject", "no")
    answer(bench, "beta", "reject", "no")
    assert states(run)["4a"] == "pending"


def test_a_phase_that_failed_by_itself_is_no_rejection(bench: Bench, run: Run) -> None:
    write_pipeline(bench.folder / "pipeline", **SCRIPTS | {"scripts/average.slurm": HEAD + "exit 3\n"})
    other = bench.begin("other")
    bench.drive()
    for gate in Gate.objects.filter(state="open", root_uuid=other.uuid):
        verdict = "reject" if "beta" in gate.context else "approve"
        bench.answer(gate, verdict, "no")
    bench.drive()
    assert states(other)["3b (alpha)"] == "failed" and states(other)["4a"] == "pending"


def test_tried_again_it_comes_late_and_makes_stale_what_went_on_without(bench: Bench, run: Run) -> None:
    answer(bench, "alpha", "reject", "not this species")
    answer(bench, "beta")
    retry_phase(phase=phase_of(run, "3a", "alpha"), author=bench.operator, reason="with a new template")
    bench.drive()
    answer(bench, "alpha")

    decision = Decision.objects.get(verdict="retry")
    for key in ("4a", "4c"):
        phase = phase_of(run, key)
        assert phase.state == "done" and phase.stale_by == decision
    assert "member alpha" in trace(run) and trace(run).count("refine") == 1, "what went on is not done again by itself"
    run.refresh_from_db()
    assert run.state == "done"


def test_run_again_from_before_the_no_stops_nothing_that_went_on_without(bench: Bench, run: Run) -> None:
    answer(bench, "alpha", "reject", "not this species")
    answer(bench, "beta")
    run_again_from(phase=phase_of(run, "3a", "alpha"), author=bench.operator, reason="again")
    now = states(run)
    assert now["4a"] == now["4c"] == "done" and not phase_of(run, "4c").again
    assert phase_of(run, "4c").stale_since is not None


def test_a_retry_while_nothing_went_on_needs_no_decision(bench: Bench, run: Run) -> None:
    answer(bench, "alpha", "reject", "not this species")
    retry_phase(phase=phase_of(run, "3a", "alpha"), author=bench.operator)
    assert not Decision.objects.filter(verdict="retry").exists()
    answer(bench, "beta")
    assert states(run)["4a"] == "pending", "it takes part again"


def test_dropped_its_lane_is_skipped_and_the_others_go_on(bench: Bench, run: Run) -> None:
    decision = drop_species(species=species_of(run, "alpha"), author=bench.reviewer, reason="too few particles")
    answer(bench, "beta")

    now = states(run)
    assert {now[f"{key} (alpha)"] for key in ("3a", "3b", "4b")} == {"skipped"}
    assert phase_of(run, "3b", "alpha").reason == (
        "Skipped: the species alpha was dropped by reviewer: too few particles."
    )
    assert Gate.objects.filter(state="withdrawn").count() == 1
    assert species_of(run, "alpha").dropped_by == decision
    assert (decision.verdict, decision.statement.answers) == ("drop_species", {"species": "alpha"})
    assert Event.objects.get(kind="run.drop_species").decision == decision
    run.refresh_from_db()
    assert run.state == "done" and "member alpha" not in trace(run) and trace(run)[-1] == "refine"


def test_dropped_after_a_no_the_run_can_end(bench: Bench, run: Run) -> None:
    answer(bench, "alpha", "reject", "not this species")
    answer(bench, "beta")
    drop_species(species=species_of(run, "alpha"), author=bench.reviewer, reason="not seen")
    run.refresh_from_db()
    assert run.state == "done" and phase_of(run, "4c").stale_since is None, "it was never in it"


def test_what_was_joined_with_it_becomes_stale(bench: Bench, run: Run) -> None:
    answer(bench, "alpha")
    answer(bench, "beta")
    decision = drop_species(species=species_of(run, "alpha"), author=bench.reviewer, reason="a contaminant")
    assert [phase_of(run, key).stale_by for key in ("4a", "4c")] == [decision, decision]
    assert phase_of(run, "4b", "alpha").state == "done"

    run_again_from(phase=phase_of(run, "2"), author=bench.operator, reason="new fiducials")
    assert not phase_of(run, "3a", "alpha").again and phase_of(run, "3a", "beta").again


def test_a_running_job_of_it_is_cancelled(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **SCRIPTS)
    run = bench.begin()
    for _ in range(2):
        start_ready()
        bench.run_jobs()
    start_ready()
    assert states(run)["3a (alpha)"] == "running"
    drop_species(species=species_of(run, "alpha"), author=bench.reviewer, reason="too few particles")
    assert states(run)["3a (alpha)"] == "skipped" and states(run)["3a (beta)"] == "running"
    phase = phase_of(run, "3a", "alpha")
    assert Job.objects.get(subject_uuid=phase.uuid).state == "cancelled"


def test_brought_back_it_goes_on_and_what_went_on_without_is_stale(bench: Bench, run: Run) -> None:
    drop_species(species=species_of(run, "alpha"), author=bench.reviewer, reason="too few particles")
    answer(bench, "beta")
    decision = bring_species_back(species=species_of(run, "alpha"), author=bench.reviewer, reason="there are more")
    bench.drive()
    answer(bench, "alpha")

    assert species_of(run, "alpha").dropped_by is None
    assert states(run)["4b (alpha)"] == "done" and phase_of(run, "4c").stale_by == decision
    assert Event.objects.filter(kind="run.reopen").count() == 1


def test_what_was_skipped_by_a_person_before_stays_so(bench: Bench, run: Run) -> None:
    skip_phase(phase=phase_of(run, "3b", "alpha"), author=bench.operator, reason="done by hand")
    drop_species(species=species_of(run, "alpha"), author=bench.reviewer, reason="too few particles")
    bring_species_back(species=species_of(run, "alpha"), author=bench.reviewer)
    assert states(run)["3b (alpha)"] == "skipped" and states(run)["3a (alpha)"] != "skipped"


def test_a_species_added_after_the_lanes_were_joined_joins_only_when_it_has_come_so_far(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **SCRIPTS)
    run = bench.begin(species=["alpha"])
    bench.drive()
    answer(bench, "alpha")
    add_species(run=run, label="beta", values={}, author=bench.operator)
    bench.drive()
    assert states(run)["4a"] == "done" and states(run)["4b (beta)"] == "pending"
    answer(bench, "beta")
    assert states(run)["4b (beta)"] == "done" and trace(run).index("average beta") < trace(run).index("member beta")


def test_refusals(bench: Bench, run: Run) -> None:
    alpha, beta = species_of(run, "alpha"), species_of(run, "beta")
    with pytest.raises(BadInput, match="Say why the species alpha is dropped"):
        drop_species(species=alpha, author=bench.reviewer, reason=" ")
    with pytest.raises(NotAllowed):
        drop_species(species=alpha, author=bench.operator, reason="mine")
    with pytest.raises(InvalidTransition, match="it was not dropped"):
        bring_species_back(species=alpha, author=bench.reviewer)
    drop_species(species=alpha, author=bench.reviewer, reason="too few particles")
    with pytest.raises(InvalidTransition, match="has been dropped from first already"):
        drop_species(species=alpha, author=bench.reviewer, reason="twice")
    with pytest.raises(InvalidTransition, match="beta is the last species of first: cancel the run instead"):
        drop_species(species=beta, author=bench.reviewer, reason="too")
    with pytest.raises(InvalidTransition, match="The species alpha was dropped from run first: bring it back first"):
        run_again_from(phase=phase_of(run, "3a", "alpha"), author=bench.operator)
    with pytest.raises(BadInput, match="bring it back on the run's page"):
        add_species(run=run, label="alpha", values={}, author=bench.operator)
    assert Decision.objects.filter(verdict="drop_species").count() == 1
    cancel_run(run=run, author=bench.operator)
    with pytest.raises(InvalidTransition, match="cancelled"):
        bring_species_back(species=alpha, author=bench.reviewer)


def test_by_the_phases_at_hand_it_comes_to_the_same_as_by_all(bench: Bench, run: Run) -> None:
    """See test_at_hand: here with lanes that are joined, and rejected or not."""
    answer(bench, "alpha", "reject", "not this species")
    decision, dice = Decision.objects.get(verdict="reject"), random.Random(5)  # noqa: S311 - states to try, no secrets
    run = bench.begin("other")  # with no jobs yet
    went_on_without = 0
    for _ in range(120):
        throw(run, dice)
        Phase.objects.filter(run=run, species=None, key__in=["1", "2"]).update(state="done", again=False)
        Phase.objects.filter(run=run).update(rejected_by=None, ended_at=timezone.now())
        if dice.random() < 0.7:
            Phase.objects.filter(pk=dice.choice([phase_of(run, key, "alpha").pk for key in ("3a", "3b")])).update(
                state="failed", rejected_by=decision
            )
        by_all, by_few = fate(run, Board.load), fate(run, Board.at_hand)
        assert by_few == by_all
        before = phase_of(run, "4a").state
        went_on_without += before == "pending" and dict(each[:2] for each in by_all[:-1])["4a"] == "ready"
    assert went_on_without > 2


def test_the_state_file_tells_only_of_those_that_take_part(bench: Bench, run: Run) -> None:
    drop_species(species=species_of(run, "alpha"), author=bench.reviewer, reason="too few particles")
    answer(bench, "beta")
    now = state_now(run)
    assert now.species == ["beta"] and list(now.lanes["3a"]) == ["beta"]


def test_the_page_and_the_api(bench: Bench, run: Run, people: Any) -> None:
    client = Client()
    client.force_login(people.reviewer)
    alpha = species_of(run, "alpha")
    page = client.get(reverse("runs:detail", args=[run.pk])).content.decode()
    assert reverse("runs:drop", args=[alpha.pk]) in page
    assert client.post(reverse("runs:drop", args=[alpha.pk]), {"reason": ""}).status_code == 400
    client.post(reverse("runs:drop", args=[alpha.pk]), {"reason": "too few particles"})
    page = client.get(reverse("runs:detail", args=[run.pk])).content.decode()
    assert reverse("runs:bring-back", args=[alpha.pk]) in page and "dropped" in page

    back = reverse("api:run-bring-species-back", args=[run.pk])
    said = client.post(back, {"label": "alpha", "reason": "there are more"}, content_type="application/json")
    assert said.status_code == 200 and said.json()["species"][0] == {
        "label": "alpha", "conf": {}, "position": 0, "dropped_by": None,
    }  # fmt: skip
    said = client.post(back, {"label": "gamma", "reason": ""}, content_type="application/json")
    assert said.status_code == 400 and "has no species gamma" in said.json()["detail"]
