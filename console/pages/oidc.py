"""Signing in at an OpenID Connect provider: there, and back."""

from __future__ import annotations

import logging
from typing import Any

import requests
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from console.access.oidc import ProviderUnavailable, configured, setting

log = logging.getLogger(__name__)


def _failed(request: HttpRequest, said: str, status: int) -> HttpResponse:
    context = {"form": AuthenticationForm(request), "next": "", "oidc": configured(), "oidc_wrong": said}
    return render(request, "registration/login.html", context, status=status)


@method_decorator(login_not_required, name="dispatch")
class OidcGo(OIDCAuthenticationRequestView):  # type: ignore[misc]
    get_settings = staticmethod(setting)

    def __init__(self, **kwargs: Any) -> None:
        super(OIDCAuthenticationRequestView, self).__init__(**kwargs)  # what its own asks for is asked for below

    def get(self, request: HttpRequest) -> HttpResponse:
        if configured() is None:
            raise Http404("Nobody signs in this way here.")
        try:
            self.OIDC_OP_AUTH_ENDPOINT = self.get_settings("OIDC_OP_AUTHORIZATION_ENDPOINT")
            self.OIDC_RP_CLIENT_ID = self.get_settings("OIDC_RP_CLIENT_ID")
        except ProviderUnavailable as away:
            return _failed(request, str(away), 503)
        answer: HttpResponse = super().get(request)
        return answer


@method_decorator(login_not_required, name="dispatch")
class OidcBack(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        if configured() is None:
            raise Http404("Nobody signs in this way here.")
        try:
            answer: HttpResponse = super().get(request)
        except (SuspiciousOperation, KeyError, ValueError) as error:
            log.warning("a sign-in was refused: %s", error)
            return _failed(request, "That sign-in cannot be trusted, and was refused. Try again.", 403)
        except (ProviderUnavailable, requests.RequestException) as error:
            log.warning("a sign-in failed: %s", error)
            return _failed(request, "The sign-in service does not respond. Try again, or use a password.", 503)
        return answer

    def login_failure(self) -> HttpResponse:
        said = "You were not let in: the sign-in service refused, or your name here belongs to somebody else."
        return _failed(self.request, said, 403)
