"""The two groups of people: viewers see everything, operators also act."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

PERMISSIONS = {
    "operate": "Can stop and start producers, edit policies and call operations",
    "view_auditentry": "Can view audit entry",
}
GROUPS = {"viewers": ["view_auditentry"], "operators": ["view_auditentry", "operate"]}


def create_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    # Django creates permissions only after all migrations have run, which is too late to hand them to groups here.
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label="audit", model="auditentry"
    )
    permissions = {
        codename: apps.get_model("auth", "Permission").objects.get_or_create(
            content_type=content_type, codename=codename, defaults={"name": name}
        )[0]
        for codename, name in PERMISSIONS.items()
    }
    for name, codenames in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.add(*(permissions[codename] for codename in codenames))


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(create_groups, migrations.RunPython.noop)]
