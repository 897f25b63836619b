"""OpenID Connect from the environment: on when HEADGATE_OIDC_ISSUER is set. For `settings.py` alone.

HEADGATE_OIDC_ISSUER        the provider's issuer, such as https://sso.example.org/realms/main
HEADGATE_OIDC_CLIENT_ID     this console's name there
HEADGATE_OIDC_SECRET        file with its secret
HEADGATE_OIDC_TITLE         what the button says, default "single sign-on"
HEADGATE_OIDC_GROUPS        claimed=group, separated by commas: who has that group there is in this group here
HEADGATE_OIDC_GROUPS_CLAIM  the claim that tells groups, default groups
HEADGATE_OIDC_NAME_CLAIM    the claim that tells user names, default preferred_username
HEADGATE_OIDC_SCOPES        default "openid profile email"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


class OidcSettingsError(Exception):
    """The message is a sentence that names the variable."""


@dataclass(frozen=True, slots=True)
class Oidc:
    """`groups`: claimed name -> names of groups here."""

    issuer: str
    client_id: str
    secret: str
    title: str
    groups: Mapping[str, tuple[str, ...]]
    groups_claim: str
    name_claim: str
    scopes: str


def from_environment(environ: Mapping[str, str]) -> Oidc | None:
    """None: off. Raises OidcSettingsError."""
    issuer = environ.get("HEADGATE_OIDC_ISSUER", "").strip()
    if not issuer:
        return None
    parts = urlsplit(issuer)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise OidcSettingsError(f"HEADGATE_OIDC_ISSUER is {issuer!r}: it must be an https address")
    client = environ.get("HEADGATE_OIDC_CLIENT_ID", "").strip()
    if not client:
        raise OidcSettingsError("HEADGATE_OIDC_CLIENT_ID is missing: it is this console's name at the provider")
    path = environ.get("HEADGATE_OIDC_SECRET", "").strip()
    try:
        secret = Path(path).read_text().strip() if path else ""
    except OSError as error:
        raise OidcSettingsError(f"HEADGATE_OIDC_SECRET: {path} cannot be read: {error.strerror}") from None
    if not secret:
        raise OidcSettingsError("HEADGATE_OIDC_SECRET is missing: it is the file with the client's secret")
    return Oidc(
        issuer.rstrip("/"),
        client,
        secret,
        environ.get("HEADGATE_OIDC_TITLE", "").strip() or "single sign-on",
        _groups(environ.get("HEADGATE_OIDC_GROUPS", "")),
        environ.get("HEADGATE_OIDC_GROUPS_CLAIM", "").strip() or "groups",
        environ.get("HEADGATE_OIDC_NAME_CLAIM", "").strip() or "preferred_username",
        environ.get("HEADGATE_OIDC_SCOPES", "").strip() or "openid profile email",
    )


def _groups(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for pair in filter(None, (word.strip() for word in text.split(","))):
        claimed, equals, group = (part.strip() for part in pair.rpartition("="))
        if not (claimed and equals and group):
            raise OidcSettingsError(f"HEADGATE_OIDC_GROUPS has {pair!r}: it must be claimed=group")
        found[claimed] = (*found.get(claimed, ()), group)
    return found
