"""`headgate rotate_broker_key`: encrypt the passwords of all brokers, and the secrets of alert receivers, with a new
key, and remove the former one."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from console.alerts.models import Receiver
from console.brokers import keys
from console.brokers.models import ForeignBroker, ServedBroker
from console.management.ready import require_database


class Command(BaseCommand):
    help = "Encrypt passwords of brokers and secrets of alert receivers with a new key, without any restart."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        require_database()
        try:
            with keys.locked():
                keys.add_key()
                with transaction.atomic():
                    rows = ForeignBroker.objects.exclude(encrypted="").select_for_update()
                    for row in rows:
                        ForeignBroker.objects.filter(pk=row.pk).update(encrypted=keys.rotated(row.encrypted))
                    for served in ServedBroker.objects.select_for_update():
                        ServedBroker.objects.filter(pk=served.pk).update(encrypted=keys.rotated(served.encrypted))
                    for receiver in Receiver.objects.exclude(encrypted="").select_for_update():
                        Receiver.objects.filter(pk=receiver.pk).update(encrypted=keys.rotated(receiver.encrypted))
                # Not before the transaction is committed: a crash until here leaves both keys, which is no fault.
                keys.drop_old_keys()
        except keys.KeyMissing as error:
            self.stderr.write(str(error))
            sys.exit(1)
        self.stdout.write(f"{len(rows)} password{'' if len(rows) == 1 else 's'} encrypted with a new key")
