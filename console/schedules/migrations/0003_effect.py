from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("schedules", "0002_lease_holder")]

    operations = [
        migrations.AddField("schedule", "effect", models.CharField(blank=True, default="", max_length=16), False),
        migrations.AddField("run", "effect", models.CharField(blank=True, default="", max_length=16), False),
    ]
