"""Settings of OpenID Connect from the environment: enabled if HEADGATE_OIDC_ISSUER is set. Only for `settings.py`.

HEADGATE_OIDC_ISSUER        the provider's issuer, such as https://sso.example.org/realms/main
HEADGATE_OIDC_CLIENT_ID     client ID of this console at the provider
HEADGATE_OIDC_SECRET        file with the client secret
HEADGATE_OIDC_TITLE         label of the button, default "single sign-on"
HEADGATE_OIDC_GROUPS        claimed=group, separated by commas: group at the provider=group of the console
HEADGATE_OIDC_GROUPS_CLAIM  the claim with the groups, default groups
HEADGATE_OIDC_NAME_CLAIM    the claim with the user name, default preferred_username
HEADGATE_OIDC_SCOPES        default "openid profile email"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


class OidcSettingsError(Exception):
    """A variable is invalid. The message is a sentence that names it."""


@dataclass(frozen=True, slots=True)
class Oidc:
    """Settings of the provider. `groups`: names of the console's groups by name at the provider."""

    issuer: str
    client_id: str
    secret: str
    title: str
    groups: Mapping[str, tuple[str, ...]]
    groups_claim: str
    name_claim: str
    scopes: str


def from_environment(environ: Mapping[str, str]) -> Oidc | None:
    """Return the settings; None if OpenID Connect is disabled. Raises OidcSettingsError."""
    issuer = environ.get("HEADGATE_OIDC_ISSUER", "").strip()
    if not issuer:
        return None
    parts = urlsplit(issuer)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise OidcSettingsError(f"HEADGATE_OIDC_ISSUER is {issuer!r}: it must be an https URL")
    client = environ.get("HEADGATE_OIDC_CLIENT_ID", "").strip()
    if not client:
        raise OidcSettingsError(
            "HEADGATE_OIDC_CLIENT_ID is missing: it is the client ID of this console at the provider"
        )
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
