"""Of each broker it is known whether the last run left its recorder's hour open; of earlier runs, it may have."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("history", "0006_queued_requests")]

    operations = [migrations.AddField("processedfiles", "is_open", models.BooleanField(default=True))]
