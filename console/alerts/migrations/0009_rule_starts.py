"""A new rule starts without a past. Those that exist go on where they were."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0008_console_url")]

    operations = [
        migrations.AddField(
            model_name="rule", name="starts", field=models.JSONField(default=None, editable=False, null=True)
        ),
        migrations.AlterField(
            model_name="rule", name="starts", field=models.JSONField(default=dict, editable=False, null=True)
        ),
    ]
