from django.urls import path

from jobs import views

app_name = "jobs"
urlpatterns = [
    path("targets/", views.targets, name="targets"),
    path("targets/<int:pk>/", views.target, name="target"),
    path("targets/<int:pk>/check/", views.check, name="check"),
    path("jobs/<int:pk>/", views.job, name="job"),
    path("jobs/<int:pk>/log/", views.log, name="log"),
    path("jobs/<int:pk>/tail/", views.tail, name="tail"),
    path("jobs/<int:pk>/cancel/", views.cancel, name="cancel"),
]
