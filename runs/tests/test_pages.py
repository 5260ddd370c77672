"""The pages of runs and phases."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from record.models import Decision, Event
from runs.models import Phase, Run, TiltSeries
from runs.services.settings import set_conf
from runs.states import RunState
from runs.tests.factories import OVERLAY, Bench, phase_of, write_pipeline
from runs.views import RUNS_A_PAGE

HOSTILE = "<script>alert(1)</script>"


def get(client: Client, user: User, name: str, *args: Any, **headers: str) -> Any:
    client.force_login(user)
    return client.get(reverse(name, args=args), headers=headers)


def new_run(client: Client, bench: Bench, **changes: Any) -> Any:
    client.force_login(bench.people.operator)
    data = {"name": "second look", "target": bench.target.pk, "work_dir": "", "preset": "small", "species": ["alpha"]}
    return client.post(f"{reverse('runs:new')}?pipeline={bench.pipeline.pk}", data | changes)


def test_the_form_offers_what_the_pipeline_describes(client: Client, bench: Bench) -> None:
    text = get(client, bench.people.operator, "runs:new").content.decode()
    assert 'name="conf_DIM"' in text and 'placeholder="16"' in text and "px" in text
    assert 'value="alpha"' in text and 'value="beta"' in text
    assert "MIN_SCORE" not in text


def test_the_fields_show_what_the_chosen_preset_sets(client: Client, bench: Bench) -> None:
    plain = OVERLAY.replace("presets:\n", "presets:\n  plain: {title: As it is}\n")
    write_pipeline(Path(bench.pipeline.folder), **{"scripts/conductor.yml": plain})
    client.force_login(bench.people.operator)
    url = f"{reverse('runs:new')}?pipeline={bench.pipeline.pk}"
    assert 'placeholder="32"' in client.get(url).content.decode()
    for nonsense in ("nothing", "<b>"):
        assert (
            'placeholder="32"' in client.get(url, {"pipeline": bench.pipeline.pk, "preset": nonsense}).content.decode()
        )
    whole = client.get(f"{url}&preset=small")
    assert 'placeholder="16"' in whole.content.decode() and "<form" in whole.content.decode()
    part = client.get(f"{url}&preset=small&conf_DIM=48", headers={"HX-Request": "true"})
    assert 'placeholder="16"' in part.content.decode() and 'value="48"' in part.content.decode()
    assert "<form" not in part.content.decode() and "HX-Request" in part.headers["Vary"]
    refused = new_run(client, bench, conf_DIM="4")
    assert 'placeholder="16"' in refused.content.decode()


def test_a_plain_post_begins_a_run_in_a_folder_named_after_it(client: Client, bench: Bench) -> None:
    response = new_run(client, bench, conf_DIM="64")
    run = Run.objects.get()
    assert response.headers["Location"] == reverse("runs:detail", args=[run.pk])
    assert run.work_dir == str(bench.folder / "second-look")
    assert run.conf["DIM"] == "64" and run.preset == "small"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("work_dir", "/etc/conductor", "/etc/conductor"),
        ("work_dir", "relative/path", "relative/path"),
        ("conf_DIM", "4", "at least 8 px is needed"),
        ("conf_DIM", "1e9", "at most 512 px"),
        ("name", "x" * 300, "300 characters"),
        ("name", "turned \u202e around", "RIGHT-TO-LEFT OVERRIDE"),
    ],
)
def test_what_cannot_be_used_is_told_and_the_form_is_kept(
    client: Client, bench: Bench, field: str, value: str, words: str
) -> None:
    response = new_run(client, bench, **{field: value})
    text = response.content.decode()
    assert response.status_code == 400
    assert words in text
    assert value in text
    assert not Run.objects.exists()


def test_a_faulty_pipeline_is_told_with_file_and_line(client: Client, bench: Bench) -> None:
    write_pipeline(Path(bench.pipeline.folder), **{"scripts/manifest.yml": "phases:\n  1: [not, a, mapping]\n"})
    response = get(client, bench.people.operator, "runs:new")
    assert response.status_code == 400
    assert "manifest.yml:2" in response.content.decode()


def test_a_name_that_looks_like_markup_stays_text(client: Client, bench: Bench) -> None:
    run = bench.begin(HOSTILE, work_dir=str(bench.folder / "w"))
    for name in ("runs:list", "home"):
        assert HOSTILE not in get(client, bench.people.viewer, name).content.decode()
    text = get(client, bench.people.viewer, "runs:detail", run.pk).content.decode()
    assert HOSTILE not in text and "&lt;script&gt;" in text


def test_buttons_are_for_those_who_may(client: Client, bench: Bench) -> None:
    run = bench.begin()
    assert (
        reverse("runs:pause", args=[run.pk])
        in get(client, bench.people.operator, "runs:detail", run.pk).content.decode()
    )
    assert (
        reverse("runs:pause", args=[run.pk])
        not in get(client, bench.people.viewer, "runs:detail", run.pk).content.decode()
    )
    client.force_login(bench.people.viewer)
    assert client.post(reverse("runs:pause", args=[run.pk])).status_code == 403
    run.refresh_from_db()
    assert run.state == RunState.RUNNING


def test_pausing_and_resuming_by_plain_posts(client: Client, bench: Bench) -> None:
    run = bench.begin()
    client.force_login(bench.people.operator)
    for verb, state in [("pause", RunState.PAUSED), ("resume", RunState.RUNNING)]:
        assert client.post(reverse(f"runs:{verb}", args=[run.pk])).status_code == 302
        run.refresh_from_db()
        assert run.state == state


def test_a_refused_action_keeps_the_reason(client: Client, bench: Bench) -> None:
    run = bench.begin()
    client.force_login(bench.people.operator)
    response = client.post(reverse("runs:archive", args=[run.pk]), {"reason": f"done {HOSTILE}"})
    text = response.content.decode()
    assert response.status_code == 409
    assert "done &lt;script&gt;" in text and HOSTILE not in text


def test_what_was_cancelled_has_not_failed(client: Client, bench: Bench) -> None:
    run = bench.begin()
    run.phases.filter(position=0).update(state="failed", reason="Stopped: the run was cancelled.")
    client.force_login(bench.people.operator)
    client.post(reverse("runs:cancel", args=[run.pk]), {"reason": "wrong data"})
    for page in (reverse("runs:list"), reverse("runs:detail", args=[run.pk])):
        text = client.get(page).content.decode().partition("<main")[2]
        assert "st-failed" not in text and "failed." not in text
    assert "stopped" in text


def test_cancelling_ends_the_polling(client: Client, bench: Bench) -> None:
    run = bench.begin()
    page = get(client, bench.people.operator, "runs:detail", run.pk)
    assert 'hx-trigger="every' in page.content.decode()
    assert client.post(reverse("runs:cancel", args=[run.pk]), {"reason": "wrong data"}).status_code == 302
    polled = get(client, bench.people.operator, "runs:detail", run.pk, **{"HX-Request": "true"})
    text = polled.content.decode()
    assert polled.status_code == 286
    assert "HX-Request" in polled.headers["Vary"]
    assert "hx-trigger" not in text and "<html" not in text
    assert Decision.objects.get().verdict == "cancel"


def test_a_gate_is_a_diamond_that_leads_to_its_page(client: Client, bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    text = get(client, bench.people.reviewer, "runs:detail", run.pk).content.decode()
    assert "waiting for a person" in text and "Decide: Look at it" in text
    assert 'class="gate look-waiting"' in text


def test_the_phase_page_shows_attempts_outputs_and_log(client: Client, bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    phase = phase_of(run, "2")
    text = get(client, bench.people.viewer, "runs:phase", phase.pk).content.decode()
    assert "recon.slurm" in text and "recon/TS_001.txt" in text and "3 of 3 done" in text
    assert "Look at it" in text


def test_a_failed_phase_says_why_and_can_be_tried_again(client: Client, bench: Bench) -> None:
    write_pipeline(Path(bench.pipeline.folder), **{"scripts/import.slurm": "#!/bin/bash\necho broken; exit 3\n"})
    run = bench.begin()
    bench.drive()
    phase = phase_of(run, "1")
    text = get(client, bench.people.operator, "runs:phase", phase.pk).content.decode()
    assert "broken" in text and phase.reason[:20] in text
    assert client.post(reverse("runs:retry", args=[phase.pk]), {"reason": "again"}).status_code == 302
    assert "Went wrong" in get(client, bench.people.viewer, "home").content.decode()


def test_a_series_is_excluded_with_a_reason_by_a_reviewer(client: Client, bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    series = TiltSeries.objects.get(run=run, name="TS_002")
    client.force_login(bench.people.reviewer)
    assert "left out of every later phase" in client.get(reverse("runs:exclude", args=[series.pk])).content.decode()
    response = client.post(reverse("runs:exclude", args=[series.pk]), {"reason": "streaks"})
    assert response.status_code == 302
    series.refresh_from_db()
    assert series.excluded_by is not None
    assert "excluded" in client.get(reverse("runs:detail", args=[run.pk])).content.decode()


def test_the_list_is_filtered_and_hides_archived_runs(client: Client, bench: Bench) -> None:
    one, two = bench.begin("needle one"), bench.begin("needle two")
    Run.objects.filter(pk=two.pk).update(archived_at=one.created_at)
    client.force_login(bench.people.viewer)
    url = reverse("runs:list")
    assert "needle two" not in client.get(url).content.decode()
    assert "needle two" in client.get(url, {"archived": "on"}).content.decode()
    assert "needle one" not in client.get(url, {"q": "two"}).content.decode()
    assert client.get(url, {"page": "nonsense", "state": "odd"}).status_code == 200


def test_an_outsider_finds_nothing(client: Client, bench: Bench) -> None:
    run = bench.begin()
    for name, pk in [("runs:detail", run.pk), ("runs:events", run.pk), ("runs:phase", phase_of(run, "1").pk)]:
        assert get(client, bench.people.outsider, name, pk).status_code == 404
    assert "first" not in get(client, bench.people.outsider, "runs:list").content.decode()


@pytest.mark.parametrize("species", [["alpha"], ["alpha", "beta"]])
def test_the_queries_do_not_grow_with_the_phases(
    client: Client, bench: Bench, django_assert_max_num_queries: DjangoAssertNumQueries, species: list[str]
) -> None:
    run = bench.begin(species=species)
    bench.drive()
    client.force_login(bench.people.viewer)
    with django_assert_max_num_queries(24):
        client.get(reverse("runs:detail", args=[run.pk]))
    with django_assert_max_num_queries(14):
        client.get(reverse("runs:list"))
    with django_assert_max_num_queries(16):
        client.get(reverse("home"))


def test_the_list_costs_the_same_for_two_runs_and_for_more_than_a_page(client: Client, bench: Bench) -> None:
    like = bench.begin()
    client.force_login(bench.people.viewer)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(reverse("runs:list")).status_code == 200
        return len(captured)

    queries()  # the first of a session also notes that it is in use
    before = queries()
    rows = [
        Run(
            lab=like.lab,
            name=f"run {number}",
            snapshot=like.snapshot,
            target=like.target,
            work_dir=f"{like.work_dir}-{number}",
            created_by=like.created_by,
        )
        for number in range(RUNS_A_PAGE + 5)
    ]
    runs = Run.objects.bulk_create(rows)
    Phase.objects.bulk_create(Phase(run=run, key="1", position=1, state="done") for run in runs)

    assert queries() == before
    first = client.get(reverse("runs:list")).context["page_obj"]
    assert [run.name for run in first] == [f"run {number}" for number in range(RUNS_A_PAGE + 4, 4, -1)]
    assert {(run.phases_passed, run.phases_total) for run in first} == {(1, 1)}


def test_settings_are_read_by_all_and_changed_by_operators(client: Client, bench: Bench) -> None:
    run = bench.begin()
    text = get(client, bench.people.viewer, "runs:settings", run.pk).content.decode()
    assert 'name="conf_DIM"' in text and "Species alpha" in text and "Change these values" not in text
    url = reverse("runs:settings", args=[run.pk])
    client.force_login(bench.people.operator)
    assert client.post(url, {"lane": "", "conf_DIM": "64", "reason": "larger"}).status_code == 302
    assert client.post(url, {"lane": "beta", "conf_MIN_SCORE": "0.7"}).status_code == 302
    run.refresh_from_db()
    assert run.conf["DIM"] == "64"
    assert run.species.get(label="beta").conf["MIN_SCORE"] == "0.7"
    assert Decision.objects.filter(verdict="set_conf").count() == 2


def test_settings_out_of_bounds_are_told_at_their_field(client: Client, bench: Bench) -> None:
    run = bench.begin()
    client.force_login(bench.people.operator)
    response = client.post(reverse("runs:settings", args=[run.pk]), {"lane": "", "conf_DIM": "2", "reason": "smaller"})
    text = response.content.decode()
    assert response.status_code == 400
    assert "at least 8 px is needed" in text and "smaller" in text
    assert client.post(reverse("runs:settings", args=[run.pk]), {"lane": "gone"}).status_code == 400
    assert not Decision.objects.exists()


def test_every_value_of_the_conf_has_its_field_and_says_where_it_is_from(client: Client, bench: Bench) -> None:
    conf = "WORK_DIR=\nNUM_SERIES=3   # how many\nDIM=32\nGAIN=/path/to/gain.mrc\nANGPIX=3.37\nBINNING_FACTOR=4\n"
    conf += 'if [ -z "$X" ]; then X=$(awk "BEGIN {printf \\"%.2f\\", $ANGPIX * $BINNING_FACTOR}"); fi\n'
    write_pipeline(bench.folder / "pipeline", **{"pipeline.conf": conf})
    run = bench.begin()
    set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="larger")
    text = get(client, bench.people.operator, "runs:settings", run.pk).content.decode()
    assert all(f'name="conf_{name}"' in text for name in ("NUM_SERIES", "DIM", "GAIN", "X"))
    assert 'name="conf_WORK_DIR"' not in text
    assert "set for this run" in text and "as the pipeline has it" in text and "how many" in text
    assert "derived = $ANGPIX * $BINNING_FACTOR: 13.48" in text
    assert "still an example" in text
    assert "ANGPIX x BINNING_FACTOR" in text and "13.48 Å" in text
    assert "-DIM=32" in text and "+DIM=64" in text


def test_a_value_is_checked_while_it_is_typed_and_nothing_is_changed(client: Client, bench: Bench) -> None:
    run = bench.begin()
    client.force_login(bench.people.operator)
    url = reverse("runs:check-settings", args=[run.pk])
    said = client.post(url, {"lane": "", "conf_DIM": "2", "field": "conf_DIM"}).content.decode()
    assert "at least 8 px is needed" in said
    said = client.post(url, {"lane": "", "conf_DIM": "16", "field": "conf_DIM"}).content.decode()
    assert said.strip() == ""
    run.refresh_from_db()
    assert run.conf == {}


def test_a_change_is_put_back_from_the_page(client: Client, bench: Bench) -> None:
    run = bench.begin()
    set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="larger")
    event = Event.objects.get(kind="run.set_conf")
    url = reverse("runs:settings", args=[run.pk])
    client.force_login(bench.people.viewer)
    assert client.post(url, {"revert": event.pk}).status_code == 403
    client.force_login(bench.people.operator)
    assert client.post(url, {"revert": event.pk}).status_code == 302
    assert client.post(url, {"revert": 0}).status_code == 404
    run.refresh_from_db()
    assert run.conf["DIM"] == "32"


def test_pixel_sizes_are_read_from_the_run_folder(client: Client, bench: Bench) -> None:
    conf = "WORK_DIR=\nNUM_SERIES=3\nDIM=32\nANGPIX=3.37\nBINNING_FACTOR=4\n"
    write_pipeline(bench.folder / "pipeline", **{"pipeline.conf": conf})
    run = bench.begin()
    bench.drive()
    mdoc = Path(run.work_dir) / "mdoc/TS_001.mdoc"
    mdoc.parent.mkdir()
    mdoc.write_text("PixelSpacing = 6.74\n")
    text = get(client, bench.people.viewer, "runs:pixels", run.pk).content.decode()
    assert "mdoc/TS_001.mdoc" in text and "6.74" in text and "disagrees" in text
    assert "ALIGN_ANGPIX" in text and "13.48" in text
    assert "40°" in text and "50°" in text
