"""Debian's Chromium through Playwright: where it is, and the arguments that keep it from connecting to other hosts."""

from __future__ import annotations

import shutil

#: The headless shell is the same browser without windows: tests take two thirds of the time with it.
PATH = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "Chromium is not installed (Debian: apt-get install chromium-headless-shell)"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
