"""Grants of roles."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="RoleGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "viewer"),
                            ("operator", "operator"),
                            ("policy-editor", "policy editor"),
                            ("admin", "administrator"),
                        ],
                        max_length=16,
                    ),
                ),
                ("broker", models.CharField(blank=True, max_length=64)),
                ("virtualhost", models.CharField(blank=True, max_length=255)),
                (
                    "group",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to="auth.group",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["group__name", "user__username", "broker", "virtualhost", "role"],
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("group__isnull", False), ("user__isnull", True)),
                            models.Q(("group__isnull", True), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="grant_to_one",
                    ),
                    models.UniqueConstraint(
                        fields=("user", "group", "role", "broker", "virtualhost"),
                        name="grant_once",
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
    ]
