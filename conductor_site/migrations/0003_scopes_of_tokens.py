"""A token has several scopes, and tells when it was last used."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

SCOPES = {"read": ["read"], "act": ["read", "operate", "decide"]}


def fill(apps, schema_editor):
    tokens = apps.get_model("conductor_site", "ApiToken").objects
    for scope, scopes in SCOPES.items():
        tokens.filter(scope=scope).update(scopes=scopes)


def empty(apps, schema_editor):
    """Back: a token that did more than reading acts, for want of a finer word."""
    tokens = apps.get_model("conductor_site", "ApiToken").objects
    for token in tokens.all():
        tokens.filter(pk=token.pk).update(scope="read" if token.scopes == ["read"] else "act")


class Migration(migrations.Migration):

    dependencies = [
        ('conductor_site', '0002_drop_unused_token_table'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='scopes',
            field=models.JSONField(default=list, help_text='names of record.access.Scope'),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='last_used_at',
            field=models.DateTimeField(help_text='to the minute', null=True),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='made_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='tokens_made_for_agents', to=settings.AUTH_USER_MODEL),
        ),
        migrations.RunPython(fill, empty),
        migrations.RemoveField(
            model_name='apitoken',
            name='scope',
        ),
    ]
