"""The declared managed type of the broker's users."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, ManagedType, Notification, Operation
from brokers.model.stop_operations import ACTOR, REASON
from brokers.model.versions import VERSION

_A = Attribute

USER = ManagedType(
    "User",
    "A user who can sign in to the broker, with permissions. Only administrators see and change users.",
    ("name",),
    (
        _A("name", Kind.STRING, "The name with which the user signs in.", creatable=True, required=True),
        _A(
            "password",
            Kind.STRING,
            "Never shown. A user created without one gets a generated password, shown once, unless it has a"
            " certificate_subject.",
            writable=True,
            secret=True,
        ),
        _A("has_password", Kind.BOOLEAN, "The user can sign in with a password."),
        _A(
            "certificate_subject",
            Kind.STRING,
            "Subject of the client certificate that signs in as this user (EXTERNAL), in the notation of RFC 4514:"
            " CN=anna,O=Example. Not set: none does.",
            writable=True,
            nullable=True,
        ),
        _A(
            "administrator",
            Kind.BOOLEAN,
            "Manages the broker, its users and every virtual host. To publish and consume it needs grants.",
            writable=True,
        ),
        _A(
            "grants",
            Kind.LIST,
            'Permissions per virtual host: texts such as "default:publish,consume". They are publish, consume'
            " and manage; * is every virtual host.",
            writable=True,
        ),
        _A("connections", Kind.INTEGER, "Open connections of the user.", "connections"),
        VERSION,
    ),
    (
        Operation(
            "renew-password",
            "Give the user a generated password, which only this answer contains, and end its connections.",
            (REASON, ACTOR),
            (
                _A(
                    "password",
                    Kind.STRING,
                    "The new password. It is not stored: note it now.",
                    secret=True,
                ),
            ),
            "destroy",
        ),
    ),
    (
        Notification("user-created", "USR-1001", "The user was created."),
        Notification("user-changed", "USR-1002", "The user's password, certificate or permissions were changed."),
        Notification("user-deleted", "USR-1003", "The user was deleted."),
    ),
    creatable=True,
    deletable=True,
)
