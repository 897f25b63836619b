"""The sign-in page, the sign-out, and the response after too many failed attempts, which django-axes counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.access.sign_ins import record_failure, record_sign_in, record_sign_out


class SignIn(LoginView):
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "oidc": settings.HEADGATE_OIDC}

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            record_sign_in(self.request, form.get_user(), "with a password")
        return answer

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        if (name := form.data.get("username")) and form.data.get("password"):
            locked = getattr(self.request, "axes_locked_out", False)
            record_failure(self.request, name, f"with a password{', locked after too many failures' if locked else ''}")
        return super().form_invalid(form)


class SignOut(LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        answer = super().post(request, *args, **kwargs)
        record_sign_out(request, user)
        return answer


sign_in = SignIn.as_view()
sign_out = SignOut.as_view()


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
