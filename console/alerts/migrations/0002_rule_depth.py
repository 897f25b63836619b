from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0001_initial")]

    operations = [
        migrations.AddField(model_name="rule", name="depth", field=models.PositiveBigIntegerField(default=0)),
    ]
