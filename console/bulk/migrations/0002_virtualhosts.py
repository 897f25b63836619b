"""Store the virtual hosts of each job's queues, by which its visibility is decided."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from brokers.model import ObjectName
from console.permissions.rights import host_of


def set_virtualhosts(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for edit in apps.get_model("bulk", "BulkEdit").objects.all():
        names = [ObjectName.parse(text) for text in edit.rows.values_list("object", flat=True)]
        edit.virtualhosts = sorted({host_of(name) or "" for name in names})
        edit.save(update_fields=["virtualhosts"])


class Migration(migrations.Migration):
    dependencies = [
        ("bulk", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="bulkedit",
            name="virtualhosts",
            field=models.JSONField(default=list, help_text="Those of its queues."),
        ),
        migrations.RunPython(set_virtualhosts, migrations.RunPython.noop),
    ]
