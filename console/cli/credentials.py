"""Address of the console and API token: from the environment, or as stored by `headgate login`.

The file is in `$XDG_CONFIG_HOME/headgate/`, with mode 0600. The token is never an argument of a command, where all
users of the machine could read it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from console.cli.problems import NOT_ALLOWED, USAGE, Problem

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Credentials:
    """`url`: address of the console, without a trailing slash. `token`: "" for none."""

    url: str
    token: str


def path() -> Path:
    """Return the path of the file with the stored credentials."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "headgate" / "credentials.json"


def load(url: str = "") -> Credentials:
    """Return the credentials to use. `url`: from the command line; "": not given. Raises Problem."""
    stored = _stored()
    wanted = checked(url or os.environ.get("HEADGATE_URL") or stored.url or DEFAULT_URL)
    # A stored token is sent only to the console that issued it.
    token = os.environ.get("HEADGATE_TOKEN") or (stored.token if stored.url == wanted else "")
    if not token:
        raise Problem(
            f"no token for {wanted}: create one in the console (your name, API tokens), then `headgate login {wanted}`,"
            " or set HEADGATE_TOKEN",
            NOT_ALLOWED,
        )
    return Credentials(wanted, token.strip())


def store(credentials: Credentials) -> Path:
    """Store the credentials and return the path of the file. Raises OSError."""
    where = path()
    where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp: not readable by other users at any time.
    number, name = tempfile.mkstemp(dir=where.parent)
    try:
        with os.fdopen(number, "w") as file:
            json.dump({"url": credentials.url, "token": credentials.token}, file)
        Path(name).replace(where)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return where


def delete() -> bool:
    """Delete the stored credentials, and return whether there were any."""
    existed = path().exists()
    path().unlink(missing_ok=True)
    return existed


def _stored() -> Credentials:
    try:
        answer = json.loads(path().read_text())
        return Credentials(str(answer["url"]), str(answer["token"]))
    except FileNotFoundError:
        return Credentials("", "")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path()} cannot be used: {error}. Sign in again with `headgate login`", NOT_ALLOWED) from None


def checked(url: str) -> str:
    """Return a normalized address. Raises Problem if it is invalid, or would expose the token."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem(f"{url!r} is not the address of a console, such as {DEFAULT_URL}", USAGE)
    if parts.scheme == "http" and not _is_local(parts.hostname) and os.environ.get("HEADGATE_ALLOW_HTTP") != "1":
        raise Problem(
            f"{url} is not encrypted and would expose the token: use https, or set HEADGATE_ALLOW_HTTP=1",
            USAGE,
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
