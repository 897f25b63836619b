"""Administrators say who may do what, within their own scope; everything they do is audited."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from console.access.models import RoleGrant
from console.access.people import rights_of
from console.access.rights import Grant, Role
from console.audit.models import AuditEntry
from tests.console.conftest import Broker
from tests.console.test_access import T, person
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
    return client.post("/access/", {"action": action, **values})


def newest() -> tuple[str, str, str]:
    row = AuditEntry.objects.first()
    assert row is not None
    return row.operation, row.object, row.outcome


def secret_in(html: str) -> str:
    found = re.search(r'id="secret">([^<]+)<', html)
    assert found
    return found[1]


def test_a_role_is_given_on_a_broker_that_is_known_from_logs_alone(boss: Client, tmp_path: Path, settings: Any) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    assert "Only in the history" not in boss.get("/access/").content.decode()
    seen = [coverage(T, T + HOUR), {**coverage(T, T + HOUR), "broker": "mill"}]
    write(settings.HEADGATE_HISTORY_URL, "coverage", seen)
    assert re.findall(r'"([^"]+)">mill<', boss.get("/access/").content.decode()) == ["mill"]
    user = person("vic")
    assert post(boss, "give", holder="user:vic", role="viewer", broker="mill", virtualhost="").status_code == 302
    assert rights_of(user).grants == (Grant(Role.VIEWER, "mill"),)


def test_a_role_is_given_and_taken_away_and_both_are_audited(boss: Client) -> None:
    user = person("vic")
    given = {"holder": "user:vic", "role": "operator", "broker": "local", "virtualhost": "default"}
    assert post(boss, "give", **given).status_code == 302
    assert rights_of(user).grants == (Grant(Role.OPERATOR, "local", "default"),)
    assert newest() == ("give-role", "user vic", "done")
    assert "Virtual host default of broker local" in boss.get("/access/").content.decode()
    assert post(boss, "give", **given).status_code == 409
    assert post(boss, "take", id=RoleGrant.objects.get(user=user).pk).status_code == 302
    assert rights_of(user).grants == ()
    assert newest() == ("take-role", "user vic", "done")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"role": "king"}, "must be one of"),
        ({"broker": "", "virtualhost": "default"}, "name the broker"),
    ],
)
def test_a_role_that_cannot_be_given_is_told_why(boss: Client, values: dict[str, str], says: str) -> None:
    person("vic")
    given = {"holder": "user:vic", "role": "viewer", "broker": "local", "virtualhost": "", **values}
    answer = post(boss, "give", **given)
    assert answer.status_code == 400
    assert says in answer.content.decode()
    assert not RoleGrant.objects.filter(user__username="vic").exists()


@pytest.mark.parametrize("action", ["give", "take", "create-user", "renew-password", "activate", "create-group"])
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.POLICY_EDITOR])
def test_who_does_not_administer_gets_no_page_and_changes_nothing(broker: Broker, action: str, role: Role) -> None:
    client = client_of(person("mia", Grant(role)))
    before = list(RoleGrant.objects.values_list("pk", flat=True))
    given = {"holder": "user:mia", "role": "admin", "name": "eve", "id": before[0], "active": "0"}
    assert client.get("/access/").status_code == 403
    assert post(client, action, **given).status_code == 403
    assert list(RoleGrant.objects.values_list("pk", flat=True)) == before
    assert not User.objects.filter(username="eve").exists()
    assert "Access</a>" not in client.get("/").content.decode()


def test_the_administrator_of_a_virtual_host_gives_roles_there_and_nowhere_else(broker: Broker) -> None:
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


def test_nobody_gives_themselves_more(broker: Broker) -> None:
    ada = person("ada", Grant(Role.ADMIN, "local", "default"))
    for broker_, host in (("", ""), ("local", "")):
        post(client_of(ada), "give", holder="user:ada", role="admin", broker=broker_, virtualhost=host)
    assert rights_of(ada).grants == (Grant(Role.ADMIN, "local", "default"),)


def test_a_person_is_made_with_a_password_that_is_told_once_and_signs_in(boss: Client) -> None:
    answer = post(boss, "create-user", name="newt")
    password = secret_in(answer.content.decode())
    assert answer["Cache-Control"] == "no-store"
    assert Client().login(request=answer.wsgi_request, username="newt", password=password)
    assert password not in boss.get("/access/").content.decode()
    assert password not in str(list(AuditEntry.objects.values()))
    assert post(boss, "create-user", name="newt").status_code == 409
    assert post(boss, "create-user", name="a b").status_code == 400


def test_who_is_locked_out_is_out_at_once_and_nobody_locks_themselves_out(boss: Client) -> None:
    user = person("vic", Grant(Role.VIEWER))
    client = client_of(user)
    assert client.get("/").status_code == 200
    assert post(boss, "activate", id=user.pk, active="0").status_code == 302
    assert client.get("/").status_code == 302
    assert newest() == ("deactivate-user", "user vic", "done")
    assert post(boss, "activate", id=User.objects.get(username="boss").pk, active="0").status_code == 400
    assert User.objects.get(username="boss").is_active


def test_groups_carry_roles_to_their_members(boss: Client) -> None:
    user = person("vic")
    assert post(boss, "create-group", name="night shift").status_code == 302
    post(boss, "give", holder="group:night shift", role="operator", broker="local", virtualhost="")
    group = Group.objects.get(name="night shift")
    post(boss, "set-groups", id=user.pk, group=["night shift"])
    assert rights_of(user).grants == (Grant(Role.OPERATOR, "local"),)
    row = AuditEntry.objects.filter(operation="set-groups").get()
    assert (row.before, row.after) == ({"groups": []}, {"groups": ["night shift"]})
    assert post(boss, "delete-group", id=group.pk).status_code == 302
    assert rights_of(user).grants == ()


def test_groups_that_there_were_keep_what_they_could_do() -> None:
    kept = {
        name: {row.grant for row in RoleGrant.objects.filter(group__name=name)}
        for name in ("viewers", "operators", "administrators")
    }
    assert kept == {
        "viewers": {Grant(Role.VIEWER)},
        "operators": {Grant(Role.OPERATOR), Grant(Role.POLICY_EDITOR)},
        "administrators": {Grant(Role.ADMIN)},
    }
