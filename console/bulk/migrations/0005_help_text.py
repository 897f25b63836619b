from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("bulk", "0004_leased_row")]

    operations = [
        migrations.AlterField(
            "bulkedit", "selection", models.JSONField(default=dict, help_text="The selection of queues, for people.")
        ),
    ]
