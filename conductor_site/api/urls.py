"""Where each door of the API is, all under /api/."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from conductor_site.api.docs import Schema, docs
from conductor_site.api.nowhere import Nowhere
from conductor_site.api.token_views import OneTokenView, TokenView
from gates import api as gates
from jobs import api as jobs
from jobs.agents import api as agents
from record import api as record
from record.notices import api as notices
from runs import api as runs

router = SimpleRouter(use_regex_path=False)
router.register("labs", record.LabViewSet, "lab")
router.register("decisions", record.DecisionViewSet, "decision")
router.register("events", record.EventViewSet, "event")
router.register("channels", notices.ChannelViewSet, "channel")
router.register("deliveries", notices.DeliveryViewSet, "delivery")
router.register("targets", jobs.TargetViewSet, "target")
router.register("jobs", jobs.JobViewSet, "job")
router.register("agents", agents.AgentViewSet, "agent")
router.register("asks", agents.AskViewSet, "ask")
router.register("gates", gates.GateViewSet, "gate")
router.register("evidence", gates.EvidenceViewSet, "evidence")
router.register("pipelines", runs.PipelineViewSet, "pipeline")
router.register("runs", runs.RunViewSet, "run")
router.register("phases", runs.PhaseViewSet, "phase")
router.register("tilt-series", runs.TiltSeriesViewSet, "tilt-series")

app_name = "api"
urlpatterns = [
    path("schema/", Schema.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
    path("v1/token/", TokenView.as_view(), name="token"),
    path("v1/token/<slug:token_key>/", OneTokenView.as_view(), name="one-token"),
    path("v1/", include(router.urls)),
    path("v1/", include(notices.commands)),
    path("v1/", include(jobs.commands)),
    path("v1/", include(agents.commands)),
    path("v1/", include(gates.commands)),
    path("v1/", include(runs.commands)),
    path("<path:address>", Nowhere.as_view(), name="nowhere"),
]
