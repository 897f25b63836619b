"""The sign-in page, and the response after too many failed attempts, which django-axes counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


class SignIn(LoginView):
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "oidc": settings.HEADGATE_OIDC}


sign_in = SignIn.as_view()


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: Mapping[str, Any]) -> HttpResponse:
    """Return the page after too many attempts, which does not reveal whether the password is correct."""
    seconds = settings.AXES_COOLOFF_TIME.total_seconds()
    context = {
        "form": AuthenticationForm(request),
        "next": request.POST.get("next", ""),
        "oidc": settings.HEADGATE_OIDC,
        "locked_minutes": math.ceil(seconds / 60),
    }
    answer = render(request, "registration/login.html", context, status=429)
    answer["Retry-After"] = str(int(seconds))
    return answer
