"""Names of fields in the terms of alerting: a notification is sent, due or resolved."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0003_lease_holder"),
    ]

    operations = [
        migrations.RenameField("rule", "told", "last_notified"),
        migrations.RenameField("rule", "tell_resolved", "send_resolved"),
        migrations.RenameField("alert", "untold", "notification_due"),
        migrations.RenameField("alert", "told_firing", "firing_notified"),
        migrations.RenameField("alert", "seen", "last_seen"),
    ]
