"""The broker's users: which exist, what they sign in with, and what each is permitted to do.

Passwords come in and are turned into verifiers at once, by what the server gives as `credentials`; no fact, record,
answer or error has one, but for a generated password, which is in the answer to the request that generated it. A change
applies at once: a user that loses a right, its password or its account loses the connections that could still use it.
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
from brokers.engine.values.rights import EVERY, MANAGE, NO_RIGHTS, RIGHTS, Rights, parse_grants
from brokers.model import ObjectName, object_name

#: What a password is checked against, as plain JSON; only the server knows what is in it.
Verifier = Mapping[str, Any]


class Credentials(Protocol):
    """What needs a random source or a hash, and so is not the engine's."""

    def prepare(self, name: str) -> str:
        """The form that a name is compared in. Raises ValueError if a character of it may not be used."""
        ...

    def verifier(self, password: str) -> Verifier:
        """Raises ValueError, without the password in it, if it cannot be one."""
        ...

    def generate(self) -> str:
        """A password that cannot be guessed."""
        ...


class User:
    """`verifier` None: no password signs in. `certificate_subject`: of the client certificate that does, or None."""

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
    """See the module. `reserved`: users that cannot be changed through management, and the sentence that says why."""

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
        """Nothing, for who is not a user (any more)."""
        user = self.users.get(name)
        return user.rights if user else NO_RIGHTS

    def with_subject(self, subject: str) -> User | None:
        """Who signs in with a certificate of this subject, in its canonical form."""
        return next((u for u in self.users.values() if u.certificate_subject == subject), None)

    def proof(self, name: str) -> object:
        """What signs the user in now: another value once that has been changed, or another user has the name."""
        user = self.users.get(name)
        return user and (user.verifier, user.certificate_subject)

    def connections(self, name: str) -> int:
        return sum(c.user == name for c in self.registry.connections.values())

    # -- changes ----------------------------------------------------------------------------------------------

    def create(self, values: Mapping[str, Any], actor: str = "") -> User:
        """A user without a password gets a generated one, unless a certificate is what it signs in with."""
        name = self._prepared(values["name"])
        if name in self.users:
            raise AlreadyExists(f"there is a user {name} already")
        self._check_reserved(name)
        user = User(name, NO_RIGHTS)
        self._set(user, values)
        if user.verifier is None and user.certificate_subject is None:
            self._generate(user)
        self.users[name] = user
        self._keep(user)
        self._fact("user-created", user, {}, _shown(user), actor)
        return user

    def update(self, user: User, after: Mapping[str, Any], actor: str = "") -> None:
        """`after`: the attributes that change. A refused change has changed nothing."""
        self._check_reserved(user.name)
        changed = User(user.name, user.rights, verifier=user.verifier, certificate_subject=user.certificate_subject)
        self._set(changed, after)
        if user.rights.administrator and not changed.rights.administrator:
            self._check_not_last(user)
        shown, had, verifier = _shown(user), user.rights, user.verifier
        subject = user.certificate_subject
        user.rights, user.verifier = changed.rights, changed.verifier
        user.certificate_subject = changed.certificate_subject
        now = _shown(user)
        changes = {field: value for field, value in now.items() if shown[field] != value}
        self._changed(user, {field: shown[field] for field in changes}, changes, actor, password="password" in after)
        if user.verifier != verifier or user.certificate_subject != subject:
            self._end_connections(user, had, "its password or certificate was changed", all_of_them=True)
        else:
            self._end_connections(user, had, "its rights were changed")

    def renew_password(self, user: User, actor: str = "") -> dict[str, Any]:
        """Give the user a generated password: the answer has it, and nothing else."""
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
        self._fact("user-deleted", user, _shown(user), {}, actor)
        self._end_connections(user, user.rights, "it was deleted", all_of_them=True)

    def forget_virtualhost(self, virtualhost: str) -> None:
        """It is no more: a later one of that name must not be open to who was let into this one."""
        for user in self.users.values():
            if virtualhost in user.rights.grants:
                user.rights = user.rights.without(virtualhost)
                user.version += 1
                self._keep(user)

    def take_generated_password(self) -> dict[str, Any]:
        """The attribute `password` if one was generated since the last call, else nothing. It is kept no longer."""
        generated, self._generated = self._generated, None
        return {} if generated is None else {"password": generated}

    def put_own(self, name: str, verifier: Verifier, rights: Rights, why: str) -> None:
        """A user that the server itself sees to; `why` it cannot be changed through management."""
        self.users[name] = user = User(name, rights, verifier=verifier)
        self.reserved[name] = why
        self._keep(user)

    def restore(self, name: str, record: Mapping[str, Any]) -> None:
        """Take up a record, of any release. Raises InvalidValue, naming the user, if it is damaged."""
        try:
            if "rights" in record:  # until rights were per virtual host
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
            raise InvalidValue({"name": f"{name!r} cannot be the name of a user: so are called who did not sign in"})
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
            raise NotAllowed("this broker keeps no passwords")
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
            raise NotAllowed(f"user {user.name} is the last administrator: make another one first")

    def _changed(
        self, user: User, before: Mapping[str, Any], after: Mapping[str, Any], actor: str, *, password: bool
    ) -> None:
        user.version += 1
        self._keep(user)
        self._fact("user-changed", user, before, after, actor, password=password)

    def _end_connections(self, user: User, had: Rights, why: str, *, all_of_them: bool = False) -> None:
        """End those on which something was opened that could not be opened now."""
        managed = any(had.may(MANAGE, h) and not user.rights.may(MANAGE, h) for h in ("", *self.registry.virtualhosts))
        for connection in self.registry.connections.values():
            host = connection.virtualhost
            if connection.user == user.name and (
                all_of_them or managed or any(had.may(r, host) and not user.rights.may(r, host) for r in RIGHTS)
            ):
                description = f"user {user.name} must sign in again: {why}"
                self.turn.effects.append(Close(connection.handle, "amqp:connection:forced", description))

    def _keep(self, user: User) -> None:
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


def _shown(user: User) -> dict[str, Any]:
    """What events may show."""
    return {
        "certificate_subject": user.certificate_subject,
        "administrator": user.rights.administrator,
        "grants": user.rights.as_texts(),
    }
