"""`headgate ensure_admin`: create the first administrator of a new installation, with a generated password."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand
from django.db import transaction


class Command(BaseCommand):
    help = "Create the superuser `admin` unless there is a superuser, and print `admin <password>` once."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        users = get_user_model().objects
        with transaction.atomic():
            if users.filter(is_superuser=True).exists():
                return
            password = secrets.token_urlsafe(12)
            user, _ = users.select_for_update().get_or_create(username="admin")
            if user.is_superuser:  # created concurrently by another host, which has printed the password
                return
            user.is_staff = user.is_superuser = user.is_active = True
            user.set_password(password)
            user.save()
        self.stdout.write(f"admin {password}")
