from django.db import migrations, models


class Migration(migrations.Migration):
    """The lease's fields get the names that they have in every leased row; its columns stay as they are."""

    dependencies = [("history", "0002_job_request")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("held", "holder", "lease_holder"),
                migrations.RenameField("held", "until", "lease_until"),
                migrations.AlterField("held", "lease_holder", models.CharField(db_column="holder", max_length=200)),
                migrations.AlterField("held", "lease_until", models.DateTimeField(db_column="until")),
            ],
        ),
    ]
