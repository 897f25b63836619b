"""A role is granted once: the constraint of before did not exist on SQLite."""

from typing import Any

from django.db import migrations, models


def forget_doubles(apps: Any, schema_editor: Any) -> None:
    known = set()
    for grant in apps.get_model("access", "RoleGrant").objects.order_by("pk"):
        what = (grant.user_id, grant.group_id, grant.role, grant.broker, grant.virtualhost)
        if what in known:
            grant.delete()
        known.add(what)


class Migration(migrations.Migration):
    dependencies = [("access", "0004_oidc")]

    operations = [
        migrations.RemoveConstraint(model_name="rolegrant", name="grant_once"),
        migrations.RunPython(forget_doubles, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.UniqueConstraint(
                fields=("user", "role", "broker", "virtualhost"), name="grant_once_to_user"
            ),
        ),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.UniqueConstraint(
                fields=("group", "role", "broker", "virtualhost"), name="grant_once_to_group"
            ),
        ),
    ]
