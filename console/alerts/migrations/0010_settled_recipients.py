"""Each recipient of an e-mail has its outcome."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0009_rule_starts")]

    operations = [migrations.AddField(model_name="delivery", name="settled", field=models.JSONField(default=dict))]
