from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("history", "0003_leased_row")]

    operations = [
        migrations.RenameField("jobrequest", "asked", "requested"),
        migrations.RenameField("jobrequest", "asked_by", "requested_by"),
        migrations.RenameField("jobrequest", "looked", "polled"),
    ]
