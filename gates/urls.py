from django.urls import path

from gates import views

app_name = "gates"
urlpatterns = [
    path("<int:pk>/", views.detail, name="detail"),
    path("<int:pk>/evidence/<uuid:uuid>/", views.evidence, name="evidence"),
]
