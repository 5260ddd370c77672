from django.urls import path

from record.notices import views

app_name = "notices"
urlpatterns = [
    path("", views.mine, name="mine"),
    path("channels/", views.channels, name="channels"),
    path("channels/new/<slug:slug>/", views.new_channel, name="new-channel"),
    path("channels/<int:pk>/", views.channel, name="channel"),
    path("channels/<int:pk>/try/", views.try_channel, name="try-channel"),
    path("sent/", views.deliveries, name="deliveries"),
    path("sent/<int:pk>/retry/", views.retry, name="retry"),
]
