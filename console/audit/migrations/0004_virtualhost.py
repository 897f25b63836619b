"""Each row tells which virtual host it is about, so that people are shown those of theirs."""

from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from brokers.model import ObjectName
from console.permissions.rights import host_of


def tell(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    # Kept rows are given what a new one has from the start: nothing that somebody did is changed.
    rows = apps.get_model("audit", "AuditEntry").objects
    for text in rows.values_list("object", flat=True).distinct():
        try:
            host = host_of(ObjectName.parse(text))
        except ValueError:
            continue
        if host:
            rows.filter(object=text).update(virtualhost=host)


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0003_administrators"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="auditentry",
            name="virtualhost",
            field=models.CharField(
                blank=True,
                help_text="The one that it is about; empty: the broker as a whole, or several.",
                max_length=255,
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["broker", "virtualhost", "-id"], name="audit_by_host"),
        ),
        migrations.RunPython(tell, migrations.RunPython.noop),
    ]
