from django.db import migrations, models


class Migration(migrations.Migration):
    """The columns of the lease are those of every leased row: null is a row that no process has."""

    dependencies = [("bulk", "0003_lease_holder")]

    operations = [
        migrations.AlterField("bulkedit", "lease_until", models.DateTimeField(null=True)),
    ]
