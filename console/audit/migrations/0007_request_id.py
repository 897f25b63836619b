"""Adds the id of the request. SQLite recreates the table for it, which drops the triggers."""

from importlib import import_module

from django.db import migrations, models

_guards = import_module("console.audit.migrations.0005_never_changed")


class Migration(migrations.Migration):
    dependencies = [("audit", "0006_help_texts")]

    operations = [
        migrations.RunPython(_guards.unguard, _guards.guard),
        migrations.AddField(
            model_name="auditentry",
            name="request_id",
            field=models.CharField(
                blank=True,
                db_index=True,
                default="",
                help_text="Id of the request that made the attempt, as in the log; empty: of a schedule, or of a"
                " command.",
                max_length=64,
            ),
        ),
        migrations.RunPython(_guards.guard, _guards.unguard),
    ]
