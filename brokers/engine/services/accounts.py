"""The broker's users: their credentials and permissions.

Passwords are turned into verifiers at once, by the server's `credentials`; no fact, record, answer or error contains
one, except a generated password in the answer to the request that generated it. A change applies at once: when a user
loses a right, its password or its account, the connections that could still use it are closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from brokers.admin import AlreadyExists, InvalidValue, NotAllowed, NotFound
from brokers.engine.flow.turn import Close, PersistRecord, Turn
from brokers.engine.registry.connection import ANONYMOUS
from brokers.engine.registry.registry import Registry
from brokers.engine.services.certificates import canonical_subject
from brokers.engine.values.events import user_words
from brokers.engine.values.names import MAX_NAME
from brokers.engine.values.rights import (
    CONSUME,
    EVERY,
    MANAGE,
    NO_RIGHTS,
    PUBLISH,
    RIGHTS,
    Rights,
    parse_grants,
)
from brokers.model import ObjectName, object_name

#: What a password is checked against, as plain JSON; only the server knows its content.
Verifier = Mapping[str, Any]


class Credentials(Protocol):
    """Operations that need a random source or a hash, which the engine does not have."""

    def prepare(self, name: str) -> str:
        """Return the normalized form of a name. Raises ValueError for a character that may not be used."""
        ...

    def verifier(self, password: str) -> Verifier:
        """Return the verifier of a password. Raises ValueError, without the password in it, if it is not valid."""
        ...

    def generate(self) -> str:
        """Return a password that cannot be guessed."""
        ...


class User:
    """`verifier` None: no sign-in by password. `certificate_subject`: the subject of its client certificate; None: no
    sign-in by certificate."""

    def __init__(
        self,
        name: str,
        rights: Rights,
        *,
        verifier: Verifier | None = None,
        certificate_subject: str | None = None,
        version: int = 1,
    ) -> None:
        self.name = name
        self.rights = rights
        self.verifier = verifier
        self.certificate_subject = certificate_subject
        self.version = version
        self.object_name: ObjectName = object_name("User", name=name)

    def record(self) -> dict[str, Any]:
        return {
            "verifier": self.verifier,
            "certificate_subject": self.certificate_subject,
            "administrator": self.rights.administrator,
            "grants": self.rights.as_texts(),
            "version": self.version,
        }


class Accounts:
    """See the module. `reserved`: users that cannot be changed through management -> the reason, as a sentence."""

    def __init__(self, registry: Registry, turn: Turn) -> None:
        self.registry = registry
        self.turn = turn
        self.users: dict[str, User] = {}
        self.credentials: Credentials | None = None
        self.reserved: dict[str, str] = {}
        self._generated: str | None = None

    # -- users -----------------------------------------------------------------------------------------------

    def user(self, name: str) -> User:
        try:
            return self.users[name]
        except KeyError:
            raise NotFound(f"there is no user {name}") from None

    def rights(self, name: str) -> Rights:
        """Return the rights of a user; none for an unknown or deleted one."""
        user = self.users.get(name)
        return user.rights if user else NO_RIGHTS

    def with_subject(self, subject: str) -> User | None:
        """Return the user that signs in with a certificate of this subject, in its canonical form."""
        return next((u for u in self.users.values() if u.certificate_subject == subject), None)

    def proof(self, name: str) -> object:
        """Return the user's present credentials, to compare with later: they change with the password, the certificate
        and the account."""
        user = self.users.get(name)
        return user and (user.verifier, user.certificate_subject)

    def connections(self, name: str) -> int:
        return sum(c.user == name for c in self.registry.connections.values())

    # -- changes ----------------------------------------------------------------------------------------------

    def create(self, values: Mapping[str, Any], actor: str = "") -> User:
        """Create a user. Without a password it gets a generated one, unless it signs in with a certificate."""
        name = self._prepared(values["name"])
        if name in self.users:
            raise AlreadyExists(f"there is a user {name} already")
        self._check_reserved(name)
        user = User(name, NO_RIGHTS)
        self._set(user, values)
        if user.verifier is None and user.certificate_subject is None:
            self._generate(user)
        self.users[name] = user
        self._persist(user)
        self._fact("user-created", user, {}, _event_attributes(user), actor)
        return user

    def update(self, user: User, after: Mapping[str, Any], actor: str = "") -> None:
        """Change a user. `after`: the attributes that change. A refused change has no effect."""
        self._check_reserved(user.name)
        changed = User(user.name, user.rights, verifier=user.verifier, certificate_subject=user.certificate_subject)
        self._set(changed, after)
        if user.rights.administrator and not changed.rights.administrator:
            self._check_not_last(user)
        before, had, verifier = _event_attributes(user), user.rights, user.verifier
        subject = user.certificate_subject
        user.rights, user.verifier = changed.rights, changed.verifier
        user.certificate_subject = changed.certificate_subject
        now = _event_attributes(user)
        changes = {field: value for field, value in now.items() if before[field] != value}
        self._changed(user, {field: before[field] for field in changes}, changes, actor, password="password" in after)
        if user.verifier != verifier or user.certificate_subject != subject:
            self._end_connections(user, had, "its password or certificate was changed", all_of_them=True)
        else:
            self._end_connections(user, had, "its rights were changed")

    def renew_password(self, user: User, actor: str = "") -> dict[str, Any]:
        """Replace the user's password by a generated one, and return it as the attribute `password`."""
        self._check_reserved(user.name)
        self._generate(user)
        self._changed(user, {}, {}, actor, password=True)
        self._end_connections(user, user.rights, "its password was changed", all_of_them=True)
        return self.take_generated_password()

    def delete(self, user: User, actor: str = "") -> None:
        self._check_reserved(user.name)
        self._check_not_last(user)
        del self.users[user.name]
        self.turn.records.append(PersistRecord("user", user.name, None))
        self._fact("user-deleted", user, _event_attributes(user), {}, actor)
        self._end_connections(user, user.rights, "it was deleted", all_of_them=True)

    def forget_virtualhost(self, virtualhost: str) -> None:
        """Revoke all grants for a deleted virtual host, so that they do not apply to a later one of that name."""
        for user in self.users.values():
            if virtualhost in user.rights.grants:
                user.rights = user.rights.without(virtualhost)
                user.version += 1
                self._persist(user)

    def end_anonymous_connections(self, virtualhost: str) -> None:
        """Close the connections to a virtual host that allows anonymous clients no longer, with those of users who
        could publish or consume only because it did."""
        description = f"virtual host {virtualhost} does not allow anonymous clients any more"
        for connection in self.registry.connections.values():
            rights = self.rights(connection.user)  # no user is called `ANONYMOUS`
            if connection.virtualhost == virtualhost and not (
                rights.may(PUBLISH, virtualhost) and rights.may(CONSUME, virtualhost)
            ):
                self.turn.effects.append(Close(connection.handle, "amqp:connection:forced", description))

    def take_generated_password(self) -> dict[str, Any]:
        """Return the attribute `password` if one was generated since the last call, else nothing; and erase it."""
        generated, self._generated = self._generated, None
        return {} if generated is None else {"password": generated}

    def put_own(self, name: str, verifier: Verifier, rights: Rights, why: str) -> None:
        """Create or replace a user that the server manages. `why`: the reason why management cannot change it."""
        self.users[name] = user = User(name, rights, verifier=verifier)
        self.reserved[name] = why
        self._persist(user)

    def restore(self, name: str, record: Mapping[str, Any]) -> None:
        """Restore a user from a record of any release. Raises InvalidValue, naming the user, if it is damaged."""
        try:
            if "rights" in record:  # a record from before rights were per virtual host
                given = frozenset(record["rights"]) & frozenset(RIGHTS)
                verifier = {k: record[k] for k in ("mechanism", "salt", "stored_key", "server_key", "iterations")}
                rights = Rights(MANAGE in given, {EVERY: given} if given else {})
                self.users[name] = User(name, rights, verifier=verifier)
                return
            rights = Rights(bool(record["administrator"]), parse_grants(record["grants"]))
            self.users[name] = User(
                name,
                rights,
                verifier=record["verifier"],
                certificate_subject=record["certificate_subject"],
                version=int(record["version"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidValue({"name": f"the record of user {name} is damaged: {error!r}"}) from error

    # -- inside ------------------------------------------------------------------------------------------------

    def _prepared(self, name: str) -> str:
        try:
            prepared = self._credentials().prepare(name)
        except ValueError as error:
            raise InvalidValue({"name": str(error)}) from None
        if not prepared or len(prepared) > MAX_NAME or not prepared.isprintable() or prepared != prepared.strip():
            raise InvalidValue({"name": f"{name!r} cannot be the name of a user: 1 to {MAX_NAME} printable characters"})
        if prepared == ANONYMOUS:
            raise InvalidValue({"name": f"{name!r} cannot be the name of a user: it is that of anonymous clients"})
        return prepared

    def _set(self, user: User, values: Mapping[str, Any]) -> None:
        if (password := values.get("password")) is not None:
            try:
                user.verifier = self._credentials().verifier(password)
            except ValueError as error:
                raise InvalidValue({"password": str(error)}) from None
        if "certificate_subject" in values:
            user.certificate_subject = self._subject(user, values["certificate_subject"])
        grants = user.rights.grants
        if "grants" in values:
            try:
                grants = parse_grants(values["grants"], known=self.registry.virtualhosts.__contains__)
            except ValueError as error:
                raise InvalidValue({"grants": str(error)}) from None
        user.rights = Rights(values.get("administrator", user.rights.administrator), grants)

    def _subject(self, user: User, text: str | None) -> str | None:
        if not text:
            return None
        try:
            subject = canonical_subject(text)
        except ValueError as error:
            raise InvalidValue({"certificate_subject": str(error)}) from None
        other = self.with_subject(subject)
        if other is not None and other.name != user.name:
            raise InvalidValue({"certificate_subject": f"{subject!r} is the certificate of user {other.name} already"})
        return subject

    def _credentials(self) -> Credentials:
        if self.credentials is None:
            raise NotAllowed("this broker stores no passwords")
        return self.credentials

    def _generate(self, user: User) -> None:
        credentials = self._credentials()
        self._generated = credentials.generate()
        user.verifier = credentials.verifier(self._generated)

    def _check_reserved(self, name: str) -> None:
        if why := self.reserved.get(name):
            raise NotAllowed(why)

    def _check_not_last(self, user: User) -> None:
        others = (u for u in self.users.values() if u is not user)
        if user.rights.administrator and not any(u.rights.administrator for u in others):
            raise NotAllowed(f"user {user.name} is the last administrator: create another one first")

    def _changed(
        self, user: User, before: Mapping[str, Any], after: Mapping[str, Any], actor: str, *, password: bool
    ) -> None:
        user.version += 1
        self._persist(user)
        self._fact("user-changed", user, before, after, actor, password=password)

    def _end_connections(self, user: User, had: Rights, why: str, *, all_of_them: bool = False) -> None:
        """Close the user's connections that use a right which the user has lost."""
        managed = any(had.may(MANAGE, h) and not user.rights.may(MANAGE, h) for h in ("", *self.registry.virtualhosts))
        for connection in self.registry.connections.values():
            host = connection.virtualhost
            if connection.user == user.name and (
                all_of_them or managed or any(had.may(r, host) and not user.rights.may(r, host) for r in RIGHTS)
            ):
                description = f"user {user.name} must sign in again: {why}"
                self.turn.effects.append(Close(connection.handle, "amqp:connection:forced", description))

    def _persist(self, user: User) -> None:
        self.turn.records.append(PersistRecord("user", user.name, user.record()))

    def _fact(
        self,
        kind: str,
        user: User,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        actor: str,
        *,
        password: bool = False,
    ) -> None:
        attributes = {"before": dict(before), "after": dict(after), "password_changed": password, "actor": actor}
        words = user_words(kind, before, after, actor, password=password)
        self.turn.add_fact(kind, user.object_name, f"user({user.name})", words, attributes)


def _event_attributes(user: User) -> dict[str, Any]:
    """Return the attributes of a user for events."""
    return {
        "certificate_subject": user.certificate_subject,
        "administrator": user.rights.administrator,
        "grants": user.rights.as_texts(),
    }
