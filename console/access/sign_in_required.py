"""Requires sign-in for every view that does not declare otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponseBase


class SignInRequiredMiddleware(LoginRequiredMiddleware):
    """Django's reads the session and the user for views without sign-in, too: then a probe with a browser's cookie
    hangs with the database."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if not getattr(view_func, "login_required", True):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)
