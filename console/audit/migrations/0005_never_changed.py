"""The database itself refuses to change or delete audit rows."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from console.audit.triggers import GUARD, UNGUARD


def guard(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in GUARD.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)


def unguard(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in UNGUARD.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("audit", "0004_virtualhost")]

    operations = [migrations.RunPython(guard, unguard)]
