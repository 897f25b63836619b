from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("bulk", "0005_help_text")]

    operations = [migrations.AddField("bulkedit", "token_number", models.BigIntegerField(null=True))]
