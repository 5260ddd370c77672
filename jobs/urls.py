from django.urls import path

from jobs import views
from jobs.agents import views as agents

app_name = "jobs"
urlpatterns = [
    path("targets/", views.targets, name="targets"),
    path("targets/<int:pk>/", views.target, name="target"),
    path("targets/<int:pk>/check/", views.check, name="check"),
    path("agents/", agents.agents, name="agents"),
    path("agents/<int:pk>/", agents.agent, name="agent"),
    path("agents/<int:pk>/try/", agents.try_one, name="agent-try"),
    path("agents/<int:pk>/switch/", agents.switch, name="agent-switch"),
    path("asks/<uuid:uuid>/", agents.ask, name="ask"),
    path("asks/<uuid:uuid>/raw/", agents.ask_raw, name="ask-raw"),
    path("jobs/<int:pk>/", views.job, name="job"),
    path("jobs/<int:pk>/log/", views.log, name="log"),
    path("jobs/<int:pk>/tail/", views.tail, name="tail"),
    path("jobs/<int:pk>/cancel/", views.cancel, name="cancel"),
]
