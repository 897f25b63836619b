"""The groups that there were keep what they could do, as grants; people in none, who saw everything, become viewers."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

GRANTS = {"viewers": ["viewer"], "operators": ["operator", "policy-editor"], "administrators": ["admin"]}


def give(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    groups = apps.get_model("auth", "Group").objects
    grants = apps.get_model("access", "RoleGrant").objects
    for name, roles in GRANTS.items():
        group, _ = groups.get_or_create(name=name)
        for role in roles:
            grants.get_or_create(group=group, user=None, role=role, broker="", virtualhost="")
    viewers = groups.get(name="viewers")
    for user in apps.get_model("auth", "User").objects.filter(groups=None, is_superuser=False):
        user.groups.add(viewers)


class Migration(migrations.Migration):
    dependencies = [("access", "0001_initial"), ("audit", "0003_administrators")]

    operations = [migrations.RunPython(give, migrations.RunPython.noop)]
