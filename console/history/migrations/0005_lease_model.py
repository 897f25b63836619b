"""The model of a lease is `Lease`. Its table stays `history_held`."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("history", "0004_plain_names"),
    ]

    operations = [
        migrations.AlterModelTable("held", "history_held"),
        migrations.RenameModel("Held", "Lease"),
    ]
