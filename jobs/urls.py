from django.urls import path

from jobs import views

app_name = "jobs"
urlpatterns = [
    path("targets/", views.targets, name="targets"),
    path("targets/<int:pk>/", views.target, name="target"),
]
