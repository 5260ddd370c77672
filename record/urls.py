from django.urls import path

from record import views

app_name = "record"
urlpatterns = [
    path("", views.decisions, name="decisions"),
    path("<uuid:uuid>/", views.decision, name="decision"),
]
