from django.urls import path

from gates import views

app_name = "gates"
urlpatterns = [
    path("<int:pk>/", views.detail, name="detail"),
    path("<int:pk>/decide/", views.decide, name="decide"),
    path("<int:pk>/consequence/", views.consequence, name="consequence"),
    path("<int:pk>/pulse/", views.pulse, name="pulse"),
    path("<int:pk>/ask-agents/", views.ask_agents, name="ask-agents"),
    path("<int:pk>/asks/", views.asks, name="asks"),
    path("advice/<uuid:uuid>/", views.advice, name="advice"),
    path("<int:pk>/delegate/", views.delegate, name="delegate"),
    path("<int:pk>/reopen/", views.reopen, name="reopen"),
    path("<int:pk>/withdraw/", views.withdraw, name="withdraw"),
    path("<int:pk>/prepare-again/", views.prepare_again, name="prepare-again"),
    path("<int:pk>/apply-again/", views.apply_again, name="apply-again"),
    path("<int:pk>/evidence/<uuid:uuid>/", views.evidence, name="evidence"),
]
