"""Sign-in at an OpenID Connect provider: identities, groups, and refused tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError
from django.test import Client

from console.access import oidc
from console.access.oidc_settings import Oidc, OidcSettingsError, from_environment
from console.access.user_rights import user_rights
from console.audit.models import AuditEntry
from console.permissions.rights import Grant, Role
from tests.console.conftest import Broker
from tests.console.fake_provider import CLIENT, SECRET, Provider, running

pytestmark = pytest.mark.django_db

GROUPS = {"ops": ("operators",), "people": ("viewers",)}


@pytest.fixture
def provider(broker: Broker, settings: Any) -> Iterator[Provider]:
    with running() as found:
        settings.HEADGATE_OIDC = Oidc(
            found.issuer, CLIENT, SECRET, "Example", GROUPS, "groups", "preferred_username", "openid profile"
        )
        settings.AUTHENTICATION_BACKENDS = [
            settings.AUTHENTICATION_BACKENDS[0],
            "console.access.oidc.OidcBackend",
            settings.AUTHENTICATION_BACKENDS[-1],
        ]
        oidc._documents.clear()
        yield found


def go(client: Client, path: str = "/oidc/go/") -> dict[str, str]:
    """Start a sign-in, and return the parameters of the authorization request."""
    answer = client.get(path)
    assert answer.status_code == 302, answer.content
    return {name: values[0] for name, values in parse_qs(urlsplit(answer["Location"]).query).items()}


def sign_in(provider: Provider, client: Client | None = None, path: str = "/oidc/go/") -> tuple[Client, Any]:
    client = client or Client()
    back = urlsplit(provider.authorize(go(client, path)))
    return client, client.get(f"{back.path}?{back.query}")


def test_user_of_the_provider_signs_in_with_the_roles_of_their_groups(provider: Provider) -> None:
    provider.claims["groups"] = ["ops", "something else"]
    client, answer = sign_in(provider, path="/oidc/go/?next=/audit/")
    assert (answer.status_code, answer["Location"]) == (302, "/audit/")
    assert client.get("/").status_code == 200
    user = User.objects.get(username="olga")
    assert not user.has_usable_password()
    assert user_rights(user).grants == (Grant(Role.OPERATOR), Grant(Role.POLICY_EDITOR))
    row = AuditEntry.objects.get(operation="set-groups")
    assert (row.before, row.after) == ({"groups": []}, {"groups": ["operators"]})
    assert provider.issuer in row.reason


def test_governed_groups_follow_the_claims_and_others_stay(provider: Provider) -> None:
    provider.claims["groups"] = ["ops"]
    sign_in(provider)
    user = User.objects.get()
    user.groups.add(Group.objects.create(name="made here"))
    provider.claims["groups"] = ["people"]
    sign_in(provider)
    assert sorted(user.groups.values_list("name", flat=True)) == ["made here", "viewers"]
    del provider.claims["groups"]
    sign_in(provider)
    assert list(user.groups.values_list("name", flat=True)) == ["made here"]
    assert User.objects.count() == 1


def test_user_without_groups_signs_in_and_sees_nothing(provider: Provider) -> None:
    client, _ = sign_in(provider)
    answer = client.get("/")
    assert answer.status_code == 403
    assert "no role yet" in answer.content.decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://elsewhere.example.org"},
        {"aud": "another-client"},
        {"aud": [CLIENT], "azp": "another-client"},
        {"exp": 1},
        {"exp": None},
        {"nonce": "another"},
        {"sub": None},
    ],
)
def test_invalid_token_is_refused(provider: Provider, wrong: dict[str, Any]) -> None:
    provider.wrong = wrong
    client, answer = sign_in(provider)
    assert answer.status_code == 403
    assert 'role="alert"' in answer.content.decode()
    assert client.get("/").status_code == 302
    assert not User.objects.exists()


def test_token_of_another_key_and_userinfo_of_another_subject_are_refused(provider: Provider) -> None:
    provider.other_key = True
    assert sign_in(provider)[1].status_code == 403
    provider.other_key = False
    provider.userinfo = {"sub": "s-2"}
    assert sign_in(provider)[1].status_code == 403
    assert not User.objects.exists()


def test_unsolicited_or_repeated_callback_is_refused(provider: Provider) -> None:
    victim = Client()
    mine = urlsplit(provider.authorize(go(Client())))
    assert victim.get(f"{mine.path}?{mine.query}").status_code == 403
    client = Client()
    back = urlsplit(provider.authorize(go(client)))
    assert client.get(f"{back.path}?{back.query}").status_code == 302
    again = client.get(f"{back.path}?{back.query}")
    assert again.status_code == 403


def test_existing_name_or_address_is_not_linked_to_the_identity(provider: Provider) -> None:
    boss = User.objects.create_superuser("Olga", email="olga@example.org", password="correct horse")
    client, answer = sign_in(provider)
    assert answer.status_code == 403
    assert client.get("/").status_code == 302
    boss.refresh_from_db()
    assert boss.has_usable_password()


def test_concurrent_sign_ins_create_one_user(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.claims["groups"] = ["ops"]
    sign_in(provider)
    looks: Iterator[list[User]] = iter([[]])  # the first query ran before the other sign-in created the user
    found = oidc.OidcBackend.filter_users_by_claims
    monkeypatch.setattr(
        oidc.OidcBackend, "filter_users_by_claims", lambda self, claims: next(looks, None) or found(self, claims)
    )
    provider.claims["preferred_username"] = "olga.again"
    client, answer = sign_in(provider)
    assert answer.status_code == 302
    assert client.get("/").status_code == 200
    assert User.objects.get().username == "olga"


def test_user_without_identity_is_rolled_back(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> None:
        raise IntegrityError("taken")

    with monkeypatch.context() as broken:
        broken.setattr(oidc.OidcIdentity.objects, "create", fails)
        assert sign_in(provider)[1].status_code == 403
    assert not User.objects.exists()
    assert sign_in(provider)[1].status_code == 302


def test_renamed_user_at_the_provider_keeps_the_account(provider: Provider) -> None:
    sign_in(provider)
    provider.claims["preferred_username"] = "olga.married"
    sign_in(provider)
    assert User.objects.get().username == "olga"
    provider.claims.update(sub="s-2", preferred_username="otto")
    sign_in(provider)
    assert User.objects.count() == 2


def test_deactivated_user_cannot_sign_in(provider: Provider) -> None:
    sign_in(provider)
    User.objects.update(is_active=False)
    client, answer = sign_in(provider)
    assert answer.status_code == 403
    assert client.get("/").status_code == 302


def test_unavailable_provider_is_reported_and_passwords_still_work(provider: Provider) -> None:
    provider.away = True
    answer = Client().get("/oidc/go/")
    assert answer.status_code == 503
    assert "does not respond" in answer.content.decode()
    provider.away = False
    client = Client()
    back = urlsplit(provider.authorize(go(client)))
    provider.away = True
    assert client.get(f"{back.path}?{back.query}").status_code == 503
    User.objects.create_user("vera", password="see-everything")
    assert Client().post("/login/", {"username": "vera", "password": "see-everything"}).status_code == 302


def test_provider_with_another_issuer_is_refused(provider: Provider) -> None:
    provider.issuer, issuer = "https://elsewhere.example.org", provider.issuer
    answer = Client().get("/oidc/go/")
    assert (answer.status_code, issuer in answer.content.decode()) == (503, False)


def test_redirect_after_sign_in_stays_on_this_console(provider: Provider) -> None:
    answer = sign_in(provider, path="/oidc/go/?next=https://evil.example.org/")[1]
    assert answer["Location"] == "/"


def test_sign_in_page_has_the_button_if_configured(provider: Provider, settings: Any) -> None:
    assert "Sign in with Example" in Client().get("/login/?next=/audit/").content.decode()
    settings.HEADGATE_OIDC = None
    assert "oidc" not in Client().get("/login/").content.decode()
    assert Client().get("/oidc/go/").status_code == 404
    assert Client().get("/oidc/back/?code=a&state=b").status_code == 404


# -- settings ---------------------------------------------------------------------------------------------------------


def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hush\n")
    given = {
        "HEADGATE_OIDC_ISSUER": "https://sso.example.org/realms/main/",
        "HEADGATE_OIDC_CLIENT_ID": "headgate",
        "HEADGATE_OIDC_SECRET": str(file),
    }
    found = from_environment({**given, "HEADGATE_OIDC_GROUPS": "team=a=operators,people=viewers,people=others"})
    assert found
    assert (found.issuer, found.secret) == ("https://sso.example.org/realms/main", "hush")
    assert found.groups == {"team=a": ("operators",), "people": ("viewers", "others")}
    assert from_environment({}) is None
    for name, value, says in (
        ("HEADGATE_OIDC_ISSUER", "http://sso.example.org", "https"),
        ("HEADGATE_OIDC_CLIENT_ID", "", "CLIENT_ID is missing"),
        ("HEADGATE_OIDC_SECRET", "", "SECRET is missing"),
        ("HEADGATE_OIDC_SECRET", str(tmp_path / "nothing"), "cannot be read"),
        ("HEADGATE_OIDC_GROUPS", "ops", "claimed=group"),
    ):
        with pytest.raises(OidcSettingsError, match=says):
            from_environment({**given, "HEADGATE_OIDC_GROUPS": "", name: value})


# -- the audit trail --------------------------------------------------------------------------------------------------


def entries() -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.exclude(operation="set-groups").order_by("id")
    return list(rows.values_list("user_name", "operation", "outcome"))


def test_sign_ins_through_the_provider_are_in_the_audit_trail(provider: Provider) -> None:
    client, _ = sign_in(provider)
    row = AuditEntry.objects.get(operation="sign-in")
    assert (row.user, row.broker, row.detail) == (User.objects.get(), "", "through single sign-on")
    client.get("/oidc/back/?error=login_required")  # the provider ends it
    assert entries() == [
        ("olga", "sign-in", "done"),
        ("(unknown)", "sign-in", "refused"),
        ("olga", "sign-out", "done"),
    ]


def test_refused_sign_ins_through_the_provider_are_in_the_audit_trail(provider: Provider) -> None:
    provider.claims["aud"] = "another"
    _, answer = sign_in(provider)
    assert answer.status_code == 403
    assert entries() == [("(unknown)", "sign-in", "refused")]
    assert AuditEntry.objects.get().detail == "through single sign-on: the token has another audience"
