"""Where accounts and the members of labs are."""

from django.urls import path

from conductor_site.accounts import lab_views, views

account = [
    path("", views.me, name="me"),
    path("password/", views.password, name="password"),
    path("tokens/", views.new_token, name="new-token"),
    path("tokens/<slug:token_key>/revoke/", views.revoke_token, name="revoke-token"),
]

labs = [
    path("<int:pk>/members/", lab_views.members, name="members"),
    path("<int:pk>/members/add/", lab_views.add, name="add"),
    path("<int:pk>/members/<int:member>/", lab_views.member, name="member"),
    path("<int:pk>/members/<int:member>/password-link/", lab_views.password_link, name="password-link"),
    path("<int:pk>/members/<int:member>/tokens/", lab_views.new_agent_token, name="agent-token"),
    path(
        "<int:pk>/members/<int:member>/tokens/<slug:token_key>/revoke/",
        lab_views.end_agent_token,
        name="revoke-agent-token",
    ),
    path("<int:pk>/members/<int:member>/close/", lab_views.close_agent, name="close-agent"),
    path("<int:pk>/invitations/", lab_views.new_invitation, name="invite"),
    path("<int:pk>/invitations/<int:link>/revoke/", lab_views.end_invitation, name="revoke-invitation"),
    path("<int:pk>/agents/", lab_views.new_agent, name="new-agent"),
]
