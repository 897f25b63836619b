"""The audit trail can only grow."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User

from console.audit.models import AppendOnlyError, AuditEntry

pytestmark = pytest.mark.django_db


def entry(**values: object) -> AuditEntry:
    made = AuditEntry(
        user_name="olga", broker="local", object="type=Broker", operation="update", outcome="done", **values
    )
    made.save()
    return made


def test_row_that_is_kept_cannot_be_changed_or_deleted() -> None:
    row = entry()
    row.reason = "another"
    with pytest.raises(AppendOnlyError):
        row.save()
    with pytest.raises(AppendOnlyError):
        row.delete()
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.filter(pk=row.pk).update(reason="another")
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.all().delete()
    with pytest.raises(AppendOnlyError):
        AuditEntry.objects.bulk_update([row], ["reason"])
    assert AuditEntry.objects.get().reason == ""


def test_deleted_user_leaves_the_rows_with_the_name() -> None:
    user = User.objects.create_user("olga")
    entry(user=user)
    user.delete()
    row = AuditEntry.objects.get()
    assert (row.user, row.user_name) == (None, "olga")


def test_migrations_make_viewers_who_see_and_operators_who_act() -> None:
    def permissions(group: str) -> set[str]:
        return set(Group.objects.get(name=group).permissions.values_list("codename", flat=True))

    assert permissions("viewers") == {"view_auditentry"}
    assert permissions("operators") == {"view_auditentry", "operate"}
    assert permissions("administrators") == {"view_auditentry", "operate", "administer"}
