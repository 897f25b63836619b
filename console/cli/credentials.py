"""Where the console is and the token for it: from the environment, or as `headgate login` stored them.

The file is the user's alone (0600), in `$XDG_CONFIG_HOME/headgate/`. The token is never an argument of a command, where
everybody on the machine could read it.
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
    """`url`: of the console, without a slash at its end. `token`: "" for none."""

    url: str
    token: str


def path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "headgate" / "credentials.json"


def found(url: str = "") -> Credentials:
    """`url`: as given on the command line. Raises Problem."""
    kept = _kept()
    wanted = checked(url or os.environ.get("HEADGATE_URL") or kept.url or DEFAULT_URL)
    # A token is for the console that gave it.
    token = os.environ.get("HEADGATE_TOKEN") or (kept.token if kept.url == wanted else "")
    if not token:
        raise Problem(
            f"no token for {wanted}: create one in the console (your name, API tokens), then `headgate login {wanted}`,"
            " or set HEADGATE_TOKEN",
            NOT_ALLOWED,
        )
    return Credentials(wanted, token.strip())


def keep(credentials: Credentials) -> Path:
    where = path()
    where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Never readable by others, not even while it is being written.
    number, name = tempfile.mkstemp(dir=where.parent)
    try:
        with os.fdopen(number, "w") as file:
            json.dump({"url": credentials.url, "token": credentials.token}, file)
        Path(name).replace(where)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return where


def forget() -> bool:
    """Whether there was anything to forget."""
    there = path().exists()
    path().unlink(missing_ok=True)
    return there


def _kept() -> Credentials:
    try:
        told = json.loads(path().read_text())
        return Credentials(str(told["url"]), str(told["token"]))
    except FileNotFoundError:
        return Credentials("", "")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path()} cannot be used: {error}. Sign in again with `headgate login`", NOT_ALLOWED) from None


def checked(url: str) -> str:
    """The address without what is too much; raises Problem for one that would give the token away."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem(f"{url!r} is not the address of a console, such as {DEFAULT_URL}", USAGE)
    if parts.scheme == "http" and not _is_here(parts.hostname) and os.environ.get("HEADGATE_ALLOW_HTTP") != "1":
        raise Problem(
            f"{url} is not encrypted and would expose the token: use https, or set HEADGATE_ALLOW_HTTP=1",
            USAGE,
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
