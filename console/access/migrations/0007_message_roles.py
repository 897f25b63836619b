from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0006_help_texts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="rolegrant",
            name="role",
            field=models.CharField(
                choices=[
                    ("viewer", "viewer"),
                    ("message-reader", "message reader"),
                    ("publisher", "publisher"),
                    ("operator", "operator"),
                    ("policy-editor", "policy editor"),
                    ("admin", "administrator"),
                ],
                max_length=16,
            ),
        ),
    ]
