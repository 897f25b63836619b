from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("schedules", "0003_effect")]

    operations = [
        migrations.AddField("schedule", "token_number", models.BigIntegerField(null=True)),
        migrations.AddField("run", "token_number", models.BigIntegerField(null=True)),
    ]
