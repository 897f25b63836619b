"""Runs are by broker, requests of all work are queued, and the pipeline itself removes processed landing files."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def remove_sweep(apps: Any, _schema: Any) -> None:
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(task="history.sweep").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("history", "0005_lease_model"),
        ("django_celery_beat", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProcessedFiles",
            fields=[
                ("broker", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("orders", models.JSONField(default=dict)),
                ("others", models.JSONField(default=list)),
            ],
        ),
        migrations.AddField("historyrun", "broker", models.CharField(blank=True, default="", max_length=255)),
        migrations.RemoveField("jobrequest", "polled"),
        migrations.AddField("jobrequest", "started", models.DateTimeField(null=True)),
        migrations.AddField("jobrequest", "attempts", models.PositiveIntegerField(default=0)),
        migrations.RunPython(remove_sweep, migrations.RunPython.noop),
    ]
