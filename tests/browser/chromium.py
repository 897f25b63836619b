"""Debian's Chromium through Playwright: where it is, and how to start it so that it talks to nobody else."""

from __future__ import annotations

import shutil

PATH = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "Chromium is not installed (Debian: apt-get install chromium)"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
