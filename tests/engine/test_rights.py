"""Rights per virtual host, and the syntax of grants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.values.rights import ALL, EVERY, NO_RIGHTS, RIGHTS, Rights, parse_grants

USERS = {
    "without rights": NO_RIGHTS,
    "publisher": Rights(grants=parse_grants(["a:publish"])),
    "worker": Rights(grants=parse_grants(["a:consume", "b:publish, consume"])),
    "manager of a": Rights(grants=parse_grants(["a:manage"])),
    "manager of all": Rights(grants=parse_grants(["*:manage"])),
    "reader of all": Rights(grants=parse_grants(["*:consume", "a:publish"])),
    "administrator": Rights(administrator=True),
    "administrator that publishes": Rights(administrator=True, grants=parse_grants(["b:publish"])),
    "all": ALL,
}

#: user -> its rights in the virtual hosts a, b and a later one, and ("") of the broker
MATRIX = {
    "without rights": {},
    "publisher": {"a": "publish"},
    "worker": {"a": "consume", "b": "publish consume"},
    "manager of a": {"a": "manage"},
    "manager of all": {"a": "manage", "b": "manage", "later": "manage"},
    "reader of all": {"a": "publish consume", "b": "consume", "later": "consume"},
    "administrator": {"a": "manage", "b": "manage", "later": "manage", "": "manage"},
    "administrator that publishes": {"a": "manage", "b": "publish manage", "later": "manage", "": "manage"},
    "all": {
        "a": "publish consume manage",
        "b": "publish consume manage",
        "later": "publish consume manage",
        "": "manage",
    },
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("virtualhost", ["a", "b", "later", ""])
def test_user_has_exactly_the_rights_of_its_grants(user: str, virtualhost: str) -> None:
    allowed = set(MATRIX[user].get(virtualhost, "").split())
    assert {right for right in RIGHTS if USERS[user].may(right, virtualhost)} == allowed


@pytest.mark.parametrize("user", USERS)
def test_manages_something_is_true_with_any_right_to_manage(user: str) -> None:
    managing = any("manage" in allowed for allowed in MATRIX[user].values())
    assert USERS[user].manages_something == managing


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("default", "'default' is not a grant"),
        ("", "'' is not a grant"),
        (7, "7 is not a grant"),
        (None, "None is not a grant"),
        ("default:", "'' is not one of publish, consume, manage"),
        ("default:fly", "'fly' is not one of"),
        ("default:publish,,consume", "'' is not one of"),
        ("default:publish consume", "'publish consume' is not one of"),
        ("elsewhere:publish", "there is no virtual host 'elsewhere'"),
        (":publish", "there is no virtual host ''"),
    ],
)
def test_invalid_grant_is_refused_by_name(wrong: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        parse_grants(["default:publish", wrong], known={"default"}.__contains__)


def test_grants_for_one_virtual_host_add_up_and_its_name_may_have_a_colon() -> None:
    rights = Rights(grants=parse_grants(["a:b:publish", "a:b:consume", "*:manage"]))
    assert rights.as_texts() == ["*:manage", "a:b:publish,consume"]


def test_rights_in_a_deleted_virtual_host_are_revoked() -> None:
    rights = Rights(grants=parse_grants(["a:publish", "b:consume"])).without("a")
    assert rights.as_texts() == ["b:consume"]


given_rights = st.frozensets(st.sampled_from(RIGHTS), min_size=1)


@given(st.dictionaries(st.one_of(st.just(EVERY), st.text(min_size=1)), given_rights))
def test_grants_parse_back_from_their_texts(grants: dict[str, frozenset[str]]) -> None:
    assert parse_grants(Rights(grants=grants).as_texts()) == grants
