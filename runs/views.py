"""Runs as pages: the list, a new one, one run, one phase, and what can be done to them."""

from django.contrib import messages
from django.db.models import Count, Exists, Model, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from gates.models import Gate
from gates.states import GateState
from record.access import Ability, can, lab_ids, require, visible
from record.errors import BadInput, ConductorError, NotAllowed
from record.forms import ReasonForm
from record.models import Event
from record.pages import live_page, page_author, page_of
from runs.actions import PHASE_ACTIONS, RUN_ACTIONS, SERIES_ACTIONS, SPECIES_ACTIONS, Action
from runs.forms import CONF, NewRunForm, RunFilter, SpeciesForm
from runs.models import Phase, Pipeline, Preflight, Run, Species, TiltSeries
from runs.page import phase_page, run_page
from runs.pipeline.load import load_pipeline
from runs.pipeline.spec import spec_of
from runs.pixels_page import pixels_page
from runs.services.conf_checks import told_about
from runs.services.create import create_run
from runs.services.preflight import last_findings, last_look, probe_run
from runs.services.settings import revert_conf, set_conf
from runs.services.species import add_species, offered_values
from runs.services.upgrade import offered_upgrade, upgrade_run
from runs.settings_page import changes_of, settings_forms
from runs.states import PASSED, PhaseState

RUNS_A_PAGE = 50
_PROGRESS = {
    "phases_total": Count("phases"),
    "phases_passed": Count("phases", filter=Q(phases__state__in=PASSED)),
    "phases_failed": Count("phases", filter=Q(phases__state=PhaseState.FAILED)),
    "waits": Exists(Gate.objects.filter(root_uuid=OuterRef("uuid"), state=GateState.OPEN)),
}


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The runs of the person's labs, newest first."""
    form = RunFilter(request.GET)
    rows = form.narrow(visible(Run.objects.order_by("-id"), request.user))
    context = {
        "form": form,
        "page_obj": page_of(request, rows, size=RUNS_A_PAGE, dress=_dressed),
        "may_start": lab_ids(request.user, Ability.OPERATE).exists(),
    }
    return render(request, "runs/list.html", context)


def _dressed(runs: QuerySet[Run]) -> QuerySet[Run]:
    """The runs with what the list shows of them."""
    joined = runs.select_related("target", "snapshot__pipeline", "created_by").defer("snapshot__spec", "conf")
    return joined.annotate(**_PROGRESS)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Start a run: first which pipeline, then its form, made of what the pipeline says can be set."""
    labs = lab_ids(request.user, Ability.OPERATE)
    pipelines = Pipeline.objects.filter(archived_at=None, lab__in=labs).select_related("lab")
    if not labs.exists():
        raise NotAllowed("To start a run you need the role operator or administrator in a lab. Ask an administrator.")
    asked = request.GET.get("pipeline", "")
    chosen = (
        pipelines.filter(pk=int(asked)).first() if asked.isascii() and asked.isdigit() and len(asked) < 19 else None
    )
    rows = list(pipelines)
    if chosen is None and len(rows) == 1 and not asked:
        chosen = rows[0]
    if chosen is None:
        return render(request, "runs/choose.html", {"pipelines": rows}, status=404 if asked else 200)
    try:
        spec = load_pipeline(chosen.folder)
    except ConductorError as fault:
        context = {"pipelines": rows, "chosen": chosen, "fault": fault}
        return render(request, "runs/choose.html", context, status=fault.status)
    posted = request.POST if request.method == "POST" else None
    shown = {name: value for name, value in request.GET.items() if name == "preset" or name.startswith(CONF)}
    form = NewRunForm(posted, pipeline=chosen, spec=spec, initial=shown)
    if request.method == "POST" and form.is_valid():
        try:
            run = create_run(lab_id=chosen.lab_id, author=page_author(request), pipeline=chosen, **form.wishes())
        except ConductorError as refusal:
            form.refuse(refusal)
        else:
            messages.success(request, f"Run {run.name} has begun.")
            return redirect("runs:detail", run.pk)
    context = {"form": form, "pipeline": chosen, "spec": spec, "several": len(rows) > 1}
    swaps = request.method != "POST" and request.headers.get("HX-Request") == "true"
    page = "runs/_conf_fields.html" if swaps else "runs/new.html"
    response = render(request, page, context, status=400 if form.errors else 200)
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_safe
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One run."""
    context = run_page(_run(request, pk), request.user)
    return live_page(request, page="runs/detail.html", part="runs/_run.html", context=context, final=context["final"])


@require_safe
def events(request: HttpRequest, pk: int) -> HttpResponse:
    """Everything that happened in a run, newest first."""
    run = _run(request, pk)
    rows = Event.objects.filter(root_uuid=run.uuid).select_related("decision__statement").order_by("-id")
    return render(request, "runs/events.html", {"run": run, "page_obj": page_of(request, rows, size=100)})


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, pk: int) -> HttpResponse:
    """The values that a run works with; an operator may change them, with what they mean for phases that used them."""
    run = _run(request, pk)
    forms = settings_forms(run)
    if request.method == "POST":
        require(request.user, Ability.OPERATE, run.lab_id)
        if "revert" in request.POST:
            return _revert(request, run)
        lane = next((each for each in forms if each.key == request.POST.get("lane", "")), None)
        if lane is None:
            raise BadInput("This run has no such species; open its settings again.")
        lane.bind(request.POST)
        if lane.form.is_valid():
            reason = lane.form.cleaned_data["reason"]
            try:
                changed = set_conf(
                    run=run, species=lane.species, values=lane.form.values(), author=page_author(request), reason=reason
                )
            except ConductorError as refusal:
                lane.form.refuse(refusal)
            else:
                messages.success(request, "Changed." if changed else "Nothing is different, so nothing was changed.")
                return redirect("runs:settings", run.pk)
    wrong = any(each.form.errors for each in forms)
    may = run.archived_at is None and can(request.user, Ability.OPERATE, run.lab_id)
    context = {"run": run, "lanes": forms, "may_change": may, "changes": changes_of(run)}
    return render(request, "runs/settings.html", context, status=400 if wrong else 200)


def _revert(request: HttpRequest, run: Run) -> HttpResponse:
    """Put one change of the settings back."""
    asked = request.POST["revert"]
    known = Event.objects.filter(subject_uuid=run.uuid, kind="run.set_conf")
    event = get_object_or_404(known, pk=int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 19 else 0)
    revert_conf(run=run, event=event, author=page_author(request), reason=request.POST.get("reason", ""))
    messages.success(request, "Put back.")
    return redirect("runs:settings", run.pk)


@require_POST
def check_settings(request: HttpRequest, pk: int) -> HttpResponse:
    """What would be said of a lane's values as they are being typed, for one field; nothing is changed."""
    run = _run(request, pk)
    require(request.user, Ability.OPERATE, run.lab_id)
    label = request.POST.get("lane", "")
    species = get_object_or_404(run.species.all(), label=label) if label else None
    values = {name.removeprefix(CONF): value for name, value in request.POST.items() if name.startswith(CONF)}
    asked = request.headers.get("HX-Trigger-Name", request.POST.get("field", "")).removeprefix(CONF)
    return render(request, "runs/_told.html", {"told": told_about(run, species, values).get(asked, "")})


@require_safe
def pixels(request: HttpRequest, pk: int) -> HttpResponse:
    """The pixel sizes that the run's files state, read from its target on demand."""
    run = _run(request, pk)
    return render(request, "runs/pixels.html", {"run": run, "page": pixels_page(run)})


@require_http_methods(["GET", "HEAD", "POST"])
def upgrade(request: HttpRequest, pk: int) -> HttpResponse:
    """What the pipeline's folder has otherwise than the run, and going on with it."""
    run = _run(request, pk)
    require(request.user, Ability.OPERATE, run.lab_id)
    fault = None
    try:
        if request.method == "POST":
            given = {name: request.POST.get(name, "") for name in ("reason", "digest")}
            upgrade_run(run=run, author=page_author(request), **given)
            messages.success(request, "The run goes on with the pipeline as it is now.")
            return redirect("runs:detail", run.pk)
        offer = offered_upgrade(run)
    except ConductorError as refusal:
        fault, offer = refusal, None
    context = {"run": run, "offer": offer, "fault": fault}
    return render(request, "runs/upgrade.html", context, status=fault.status if fault else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def species(request: HttpRequest, pk: int) -> HttpResponse:
    """Add a species to a run."""
    run = _run(request, pk)
    require(request.user, Ability.OPERATE, run.lab_id)
    spec = spec_of(run.snapshot)
    form = SpeciesForm(request.POST if request.method == "POST" else None, spec=spec, names=offered_values(spec))
    if request.method == "POST" and form.is_valid():
        try:
            added, _ = add_species(
                run=run,
                label=form.cleaned_data["label"],
                values=form.values(),
                author=page_author(request),
                reason=form.cleaned_data["reason"],
            )
        except ConductorError as refusal:
            form.refuse(refusal)
        else:
            messages.success(request, f"The species {added.label} has a lane of its own now.")
            return redirect("runs:detail", run.pk)
    context = {"run": run, "form": form, "there": list(run.species.all())}
    return render(request, "runs/species.html", context, status=400 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
def preflight(request: HttpRequest, pk: int) -> HttpResponse:
    """What the run's phases need on its target, as it was when it was looked at last; POST looks again."""
    run = _run(request, pk)
    if request.method == "POST":
        probe_run(run=run, author=page_author(request))
        return redirect("runs:preflight", run.pk)
    last = last_look(run)
    waits = Preflight.objects.planned().filter(run=run).exists()
    may = run.archived_at is None and can(request.user, Ability.OPERATE, run.lab_id)
    context = {"run": run, "last": last, "findings": last_findings(run), "may_look": may, "waits": waits}
    return render(request, "runs/preflight.html", context)


@require_safe
def phase(request: HttpRequest, pk: int) -> HttpResponse:
    """One phase of a run."""
    context = phase_page(_phase(request, pk), request.user)
    return live_page(request, page="runs/phase.html", part="runs/_phase.html", context=context, final=context["final"])


@require_http_methods(["GET", "HEAD", "POST"])
def act_on_run(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Pause, resume, cancel or archive a run: asked by a page that says what it does, done by its form."""
    run = _run(request, pk)
    return _act(request, RUN_ACTIONS[verb], "run", run, run, reverse("runs:detail", args=[run.pk]))


@require_http_methods(["GET", "HEAD", "POST"])
def act_on_phase(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Retry, skip or run again from a phase."""
    row = _phase(request, pk)
    return _act(request, PHASE_ACTIONS[verb], "phase", row, row.run, reverse("runs:phase", args=[row.pk]))


@require_http_methods(["GET", "HEAD", "POST"])
def act_on_series(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Exclude a tilt series, or bring it back."""
    rows = visible(TiltSeries.objects.select_related("run", "excluded_by"), request.user, lab="run__lab")
    row = get_object_or_404(rows, pk=pk)
    return _act(request, SERIES_ACTIONS[verb], "series", row, row.run, reverse("runs:detail", args=[row.run_id]))


@require_http_methods(["GET", "HEAD", "POST"])
def act_on_species(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Drop a species from its run, or bring it back."""
    rows = visible(Species.objects.select_related("run", "dropped_by"), request.user, lab="run__lab")
    row = get_object_or_404(rows, pk=pk)
    return _act(request, SPECIES_ACTIONS[verb], "species", row, row.run, reverse("runs:detail", args=[row.run_id]))


def _act(request: HttpRequest, action: Action, kind: str, row: Model, run: Run, back: str) -> HttpResponse:
    """GET asks, POST does; refused, the question comes back with the typed reason and what stands against it."""
    require(request.user, action.ability, run.lab_id)
    form = ReasonForm(request.POST if request.method == "POST" else None)
    refusal: ConductorError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            action.do(**{kind: row}, author=page_author(request), reason=form.cleaned_data["reason"])
        except ConductorError as error:
            refusal = error
        else:
            messages.success(request, f"{action.label}: done.")
            return redirect(back)
    context = {"action": action, "row": row, "run": run, "form": form, "refusal": refusal, "back": back}
    status = refusal.status if refusal else 400 if form.errors else 200
    return render(request, "runs/act.html", context, status=status)


def _run(request: HttpRequest, pk: int) -> Run:
    rows = Run.objects.select_related("lab", "target", "snapshot__pipeline", "created_by")
    return get_object_or_404(visible(rows, request.user), pk=pk)


def _phase(request: HttpRequest, pk: int) -> Phase:
    rows = Phase.objects.select_related("run__lab", "run__target", "run__snapshot", "species", "stale_by")
    return get_object_or_404(visible(rows, request.user, lab="run__lab"), pk=pk)
