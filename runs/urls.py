from django.urls import path

from runs import views

app_name = "runs"
urlpatterns = [
    path("", views.runs, name="list"),
    path("new/", views.new, name="new"),
    path("<int:pk>/", views.detail, name="detail"),
    path("<int:pk>/events/", views.events, name="events"),
    path("<int:pk>/settings/", views.settings, name="settings"),
    path("<int:pk>/settings/check/", views.check_settings, name="check-settings"),
    path("<int:pk>/pixels/", views.pixels, name="pixels"),
    path("<int:pk>/preflight/", views.preflight, name="preflight"),
    path("<int:pk>/upgrade/", views.upgrade, name="upgrade"),
    path("<int:pk>/species/", views.species, name="species"),
    path("<int:pk>/pause/", views.act_on_run, {"verb": "pause"}, name="pause"),
    path("<int:pk>/resume/", views.act_on_run, {"verb": "resume"}, name="resume"),
    path("<int:pk>/cancel/", views.act_on_run, {"verb": "cancel"}, name="cancel"),
    path("<int:pk>/archive/", views.act_on_run, {"verb": "archive"}, name="archive"),
    path("<int:pk>/restore/", views.act_on_run, {"verb": "restore"}, name="restore"),
    path("<int:pk>/export/", views.act_on_run, {"verb": "export"}, name="export"),
    path("<int:pk>/leave-alone/", views.act_on_run, {"verb": "leave-alone"}, name="leave-alone"),
    path("phases/<int:pk>/", views.phase, name="phase"),
    path("phases/<int:pk>/check/", views.act_on_phase, {"verb": "check"}, name="check"),
    path("phases/<int:pk>/retry/", views.act_on_phase, {"verb": "retry"}, name="retry"),
    path("phases/<int:pk>/skip/", views.act_on_phase, {"verb": "skip"}, name="skip"),
    path("phases/<int:pk>/again/", views.act_on_phase, {"verb": "again"}, name="again"),
    path("phases/<int:pk>/stage/", views.act_on_phase, {"verb": "stage"}, name="stage"),
    path("species/<int:pk>/drop/", views.act_on_species, {"verb": "drop"}, name="drop"),
    path("species/<int:pk>/bring-back/", views.act_on_species, {"verb": "bring-back"}, name="bring-back"),
    path("series/<int:pk>/exclude/", views.act_on_series, {"verb": "exclude"}, name="exclude"),
    path("series/<int:pk>/include/", views.act_on_series, {"verb": "include"}, name="include"),
]
