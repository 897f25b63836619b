from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Held",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=200)),
                ("until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="HistoryRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("work", models.CharField(default="run", max_length=20)),
                ("holder", models.CharField(max_length=200)),
                ("started", models.DateTimeField(db_index=True)),
                ("finished", models.DateTimeField(null=True)),
                ("step", models.CharField(default="", max_length=40)),
                ("files", models.PositiveIntegerField(default=0)),
                ("rows", models.JSONField(default=dict)),
                ("seconds", models.JSONField(default=dict)),
                ("newest", models.DateTimeField(null=True)),
                ("lag_ms", models.BigIntegerField(null=True)),
                ("unreadable", models.JSONField(default=dict)),
                ("error", models.TextField(default="")),
            ],
            options={
                "ordering": ["-started", "-id"],
            },
        ),
    ]
