from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("message_jobs", "0002_token_number"),
    ]

    operations = [
        migrations.AddField(
            model_name="messagejob",
            name="depth",
            field=models.BigIntegerField(null=True),
        ),
    ]
