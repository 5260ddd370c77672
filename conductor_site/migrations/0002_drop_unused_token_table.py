from django.db import migrations

# knox's own migrations make the table of its token model, though ours takes its place. It is always empty, and it refers
# to people: so they could not be truncated without it, and no model tells Django so.


class Migration(migrations.Migration):
    dependencies = [
        ("conductor_site", "0001_initial"),
        ("knox", "0009_extend_authtoken_field"),
    ]

    operations = [migrations.RunSQL("DROP TABLE knox_authtoken")]
