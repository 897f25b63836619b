"""The third group of people: administrators also change who may do what at the brokers."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

ADMINISTER = "Can create, change and delete the users of brokers"
OPTIONS = {
    "ordering": ["-id"],
    "default_permissions": ("view",),
    "permissions": [
        ("operate", "Can stop and start producers, edit policies and call operations"),
        ("administer", ADMINISTER),
    ],
}


def create_group(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    # Django creates permissions only after all migrations have run, as in 0002.
    content_type = apps.get_model("contenttypes", "ContentType").objects.get(app_label="audit", model="auditentry")
    permissions = apps.get_model("auth", "Permission").objects
    administer, _ = permissions.get_or_create(
        content_type=content_type, codename="administer", defaults={"name": ADMINISTER}
    )
    others = permissions.filter(content_type=content_type, codename__in=["view_auditentry", "operate"])
    group, _ = apps.get_model("auth", "Group").objects.get_or_create(name="administrators")
    group.permissions.add(administer, *others)


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_groups")]

    operations = [
        migrations.AlterModelOptions(name="auditentry", options=OPTIONS),
        migrations.RunPython(create_group, migrations.RunPython.noop),
    ]
