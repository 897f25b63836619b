from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("history", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="JobRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("work", models.CharField(max_length=20)),
                ("asked", models.DateTimeField(db_index=True)),
                ("asked_by", models.CharField(blank=True, max_length=150)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("looked", models.DateTimeField(null=True)),
                ("finished", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True, default="")),
            ],
            options={"ordering": ["-id"]},
        ),
    ]
