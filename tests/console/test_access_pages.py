"""The Access page: administrators manage users, groups and roles within their scope; all changes are audited."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from console.access.actor import Actor
from console.access.administration import create_token, sync_groups
from console.access.models import RoleGrant
from console.access.user_rights import user_rights
from console.audit.models import AuditEntry
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import T, person
from tests.console.conftest import Broker
from tests.history.delta import HOUR, coverage, write

pytestmark = pytest.mark.django_db


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def boss(broker: Broker) -> Client:
    return client_of(User.objects.create_superuser("boss"))


def post(client: Client, action: str, **values: Any) -> Any:
    """Submit a form, and confirm it if necessary."""
    return client.post("/access/", {"action": action, "confirmed": "1", **values})


def confirmation(client: Client, action: str, **values: Any) -> str:
    """Return the confirmation page of a form, before anything is changed."""
    rows = AuditEntry.objects.count()
    answer = client.post("/access/", {"action": action, **values})
    html = answer.content.decode()
    assert answer.status_code == 200
    assert 'id="question"' in html
    assert AuditEntry.objects.count() == rows
    return html.partition('id="question"')[2].partition("</dialog>")[0]


def undone(client: Client) -> Any:
    """Press the button in the message on the page."""
    html = client.get("/access/").content.decode()
    found = re.search(r'value="undo"><input type="hidden" name="id" value="(\d+)"', html)
    assert found, html.partition("<main")[2][:2000]
    return post(client, "undo", id=found[1])


def newest() -> tuple[str, str, str]:
    row = AuditEntry.objects.first()
    assert row is not None
    return row.operation, row.object, row.outcome


def secret_in(html: str) -> str:
    found = re.search(r'id="secret">([^<]+)<', html)
    assert found
    return found[1]


def test_role_is_assigned_on_a_broker_that_is_only_in_the_history(boss: Client, tmp_path: Path, settings: Any) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    assert "Only in the history" not in boss.get("/access/").content.decode()
    seen = [coverage(T, T + HOUR), {**coverage(T, T + HOUR), "broker": "mill"}]
    write(settings.HEADGATE_HISTORY_URL, "coverage", seen)
    assert re.findall(r'"([^"]+)">mill<', boss.get("/access/").content.decode()) == ["mill"]
    user = person("vic")
    assert post(boss, "give", holder="user:vic", role="viewer", broker="mill", virtualhost="").status_code == 302
    assert user_rights(user).grants == (Grant(Role.VIEWER, "mill"),)


def test_assigning_and_revoking_a_role_is_audited(boss: Client) -> None:
    user = person("vic")
    given = {"holder": "user:vic", "role": "operator", "broker": "local", "virtualhost": "default"}
    assert post(boss, "give", **given).status_code == 302
    assert user_rights(user).grants == (Grant(Role.OPERATOR, "local", "default"),)
    assert newest() == ("give-role", "user vic", "done")
    assert "Virtual host default of broker local" in boss.get("/access/").content.decode()
    assert post(boss, "give", **given).status_code == 409
    assert post(boss, "take", id=RoleGrant.objects.get(user=user).pk).status_code == 302
    assert user_rights(user).grants == ()
    assert newest() == ("take-role", "user vic", "done")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"role": "king"}, "must be one of"),
        ({"broker": "", "virtualhost": "default"}, "give the broker"),
    ],
)
def test_invalid_assignment_shows_the_error(boss: Client, values: dict[str, str], says: str) -> None:
    person("vic")
    given = {"holder": "user:vic", "role": "viewer", "broker": "local", "virtualhost": "", **values}
    answer = post(boss, "give", **given)
    assert answer.status_code == 400
    assert says in answer.content.decode()
    assert not RoleGrant.objects.filter(user__username="vic").exists()


@pytest.mark.parametrize("action", ["give", "take", "create-user", "renew-password", "activate", "create-group"])
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.POLICY_EDITOR])
def test_access_page_requires_an_administrator(broker: Broker, action: str, role: Role) -> None:
    client = client_of(person("mia", Grant(role)))
    before = list(RoleGrant.objects.values_list("pk", flat=True))
    given = {"holder": "user:mia", "role": "admin", "name": "eve", "id": before[0], "active": "0"}
    assert client.get("/access/").status_code == 403
    assert post(client, action, **given).status_code == 403
    assert list(RoleGrant.objects.values_list("pk", flat=True)) == before
    assert not User.objects.filter(username="eve").exists()
    assert "Access</a>" not in client.get("/").content.decode()


def test_administrator_of_a_virtual_host_assigns_roles_only_there(broker: Broker) -> None:
    client = client_of(person("ada", Grant(Role.ADMIN, "local", "default")))
    person("vic")
    given = {"holder": "user:vic", "role": "viewer", "broker": "local"}
    assert post(client, "give", **given, virtualhost="default").status_code == 302
    for wider in ({"virtualhost": ""}, {"virtualhost": "blue"}):
        answer = post(client, "give", **given, **wider)
        assert answer.status_code == 403
        assert newest() == ("give-role", "user vic", "refused")
    elsewhere = RoleGrant.objects.get(group__name="viewers")
    assert post(client, "take", id=elsewhere.pk).status_code == 403
    html = client.get("/access/").content.decode()
    assert "Virtual host default of broker local" in html
    assert "every broker" not in html.partition('id="give"')[0].partition('id="grants"')[2].lower()
    assert 'id="people"' not in html
    for action in ("create-user", "renew-password", "set-groups", "create-group"):
        assert post(client, action, name="eve", id=User.objects.get(username="vic").pk).status_code == 403, action


def test_users_cannot_assign_roles_beyond_their_own(broker: Broker) -> None:
    ada = person("ada", Grant(Role.ADMIN, "local", "default"))
    for broker_, host in (("", ""), ("local", "")):
        post(client_of(ada), "give", holder="user:ada", role="admin", broker=broker_, virtualhost=host)
    assert user_rights(ada).grants == (Grant(Role.ADMIN, "local", "default"),)


def test_created_user_signs_in_with_the_password_that_is_shown_once(boss: Client) -> None:
    answer = post(boss, "create-user", name="newt")
    password = secret_in(answer.content.decode())
    assert answer["Cache-Control"] == "no-store"
    assert Client().login(request=answer.wsgi_request, username="newt", password=password)
    assert password not in boss.get("/access/").content.decode()
    assert password not in str(list(AuditEntry.objects.values()))
    assert post(boss, "create-user", name="newt").status_code == 409
    assert post(boss, "create-user", name="a b").status_code == 400


def test_deactivated_user_is_signed_out_and_cannot_deactivate_themselves(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER))
    client = client_of(user)
    assert client.get("/").status_code == 200
    assert post(boss, "activate", id=user.pk, active="0").status_code == 302
    assert client.get("/").status_code == 302
    assert newest() == ("deactivate-user", "user vic", "done")
    assert post(boss, "activate", id=User.objects.get(username="boss").pk, active="0").status_code == 400
    assert User.objects.get(username="boss").is_active


def test_members_have_the_roles_of_their_groups(boss: Client) -> None:
    user = person("vic")
    assert post(boss, "create-group", name="night shift").status_code == 302
    post(boss, "give", holder="group:night shift", role="operator", broker="local", virtualhost="")
    group = Group.objects.get(name="night shift")
    post(boss, "set-groups", id=user.pk, group=["night shift"])
    assert user_rights(user).grants == (Grant(Role.OPERATOR, "local"),)
    row = AuditEntry.objects.filter(operation="set-groups").get()
    assert (row.before, row.after) == ({"groups": []}, {"groups": ["night shift"]})
    assert post(boss, "delete-group", id=group.pk).status_code == 302
    assert user_rights(user).grants == ()


def test_groups_of_earlier_versions_keep_their_permissions() -> None:
    roles = {
        name: {row.grant for row in RoleGrant.objects.filter(group__name=name)}
        for name in ("viewers", "operators", "administrators")
    }
    assert roles == {
        "viewers": {Grant(Role.VIEWER)},
        "operators": {Grant(Role.OPERATOR), Grant(Role.POLICY_EDITOR)},
        "administrators": {Grant(Role.ADMIN)},
    }


def crew(boss: Client) -> Group:
    """The group `night shift`: an operator of one broker, with two members."""
    users = [person("vic"), person("mia")]
    post(boss, "create-group", name="night shift")
    post(boss, "give", holder="group:night shift", role="operator", broker="local", virtualhost="")
    for user in users:
        post(boss, "set-groups", id=user.pk, group=["night shift"])
    return Group.objects.get(name="night shift")


def test_group_is_deleted_after_confirmation_and_restored_with_roles_and_members(boss: Client) -> None:
    group = crew(boss)
    question = confirmation(boss, "delete-group", id=group.pk)
    assert "operator of broker local" in question
    assert "mia, vic" in question
    assert Group.objects.filter(name="night shift").exists()
    post(boss, "delete-group", id=group.pk)
    assert newest() == ("delete-group", "group night shift", "done")
    assert user_rights(User.objects.get(username="vic")).grants == ()
    assert undone(boss).status_code == 302
    assert "is restored" in boss.get("/access/").content.decode()
    for name in ("vic", "mia"):
        assert user_rights(User.objects.get(username=name)).grants == (Grant(Role.OPERATOR, "local"),)
    redone = AuditEntry.objects.filter(reason__startswith="undo of audit row")
    assert sorted(redone.values_list("operation", flat=True)) == [
        "create-group",
        "give-role",
        "set-groups",
        "set-groups",
    ]


def test_revoked_role_is_restored_by_undo(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER, "local", "default"))
    assignment = RoleGrant.objects.get(user=user)
    assert "no longer viewer of virtual host default" in confirmation(boss, "take", id=assignment.pk)
    post(boss, "take", id=assignment.pk)
    assert user_rights(user).grants == ()
    undone(boss)
    assert user_rights(user).grants == (Grant(Role.VIEWER, "local", "default"),)


def test_deactivated_user_is_reactivated_by_undo(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER))
    assert "All sessions of vic end immediately" in confirmation(boss, "activate", id=user.pk, active="0")
    post(boss, "activate", id=user.pk, active="0")
    undone(boss)
    assert User.objects.get(pk=user.pk).is_active


def test_previous_groups_of_a_user_are_restored_by_undo(boss: Client) -> None:
    group = crew(boss)
    user = User.objects.get(username="vic")
    assert "operator of broker local" in confirmation(boss, "set-groups", id=user.pk)
    post(boss, "set-groups", id=user.pk)
    assert not user.groups.exists()
    undone(boss)
    assert list(user.groups.all()) == [group]


def undo_of(operation: str) -> int:
    """Return the number of the newest entry of this change."""
    return AuditEntry.objects.filter(operation=operation, outcome="done")[0].pk


def test_groups_that_were_changed_again_are_not_overwritten_by_undo(boss: Client) -> None:
    crew(boss)
    user = User.objects.get(username="vic")
    post(boss, "set-groups", id=user.pk)
    number = undo_of("set-groups")
    other = Group.objects.create(name="other")
    user.groups.add(other)
    page = post(boss, "undo", id=number)
    assert "the groups of vic were changed again, from none to other" in page.content.decode()
    assert list(user.groups.all()) == [other]
    row = AuditEntry.objects.get(operation="set-groups", outcome="refused")
    assert row.reason == f"undo of audit row {number}"


def test_user_who_was_activated_again_is_not_changed_by_undo(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER))
    post(boss, "activate", id=user.pk, active="0")
    User.objects.filter(pk=user.pk).update(is_active=True)
    page = post(boss, "undo", id=undo_of("deactivate-user"))
    assert "the user vic was changed again, from deactivated to active" in page.content.decode()


def test_undo_of_a_sign_on_that_named_an_unknown_group_is_possible(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER))
    sync_groups(user, {"viewers", "unknown"}, {"viewers", "unknown"}, by="https://idp.example.org", address="")
    assert AuditEntry.objects.get(operation="set-groups").after == {"groups": ["viewers"]}
    post(boss, "undo", id=undo_of("set-groups"))
    assert not user.groups.exists()


def test_undo_of_an_entry_that_is_not_visible_is_not_found(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER))
    post(boss, "activate", id=user.pk, active="0")
    narrow = Client()
    narrow.force_login(person("nan", Grant(Role.ADMIN, "local", "default")))
    assert post(narrow, "undo", id=undo_of("deactivate-user")).status_code == 404


def test_new_password_and_revoked_token_need_confirmation_and_cannot_be_undone(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER))
    digest = user.password
    assert "cannot be undone" in confirmation(boss, "renew-password", id=user.pk)
    assert User.objects.get(pk=user.pk).password == digest
    token, _ = create_token(Actor(user), "ci", [Grant(Role.VIEWER)], days=1)
    assert "refused from now on" in confirmation(boss, "revoke-token", id=token.pk)
    post(boss, "revoke-token", id=token.pk)
    html = boss.get("/access/").content.decode()
    assert "The token ci of vic is revoked." in html
    assert 'value="undo"' not in html


@pytest.mark.parametrize("way", ["take", "delete-group", "set-groups", "activate"])
def test_last_administrator_cannot_be_removed(broker: Broker, way: str) -> None:
    group = Group.objects.get(name="administrators")
    ada, mia = person("ada"), person("mia", Grant(Role.ADMIN, "local"))
    ada.groups.add(group)
    client = client_of(ada)
    ids = {"take": RoleGrant.objects.get(group=group).pk, "delete-group": group.pk}
    answer = post(client, way, id=ids.get(way, ada.pk), active="0")
    assert answer.status_code == 400
    assert user_rights(User.objects.get(username="ada")).allows_everywhere(Role.ADMIN)
    assert newest()[2] == "refused"
    mia.groups.add(group)  # possible with a second administrator
    if way == "set-groups":
        assert post(client, way, id=ada.pk).status_code == 302
        assert not user_rights(User.objects.get(username="ada")).can_assign_any
