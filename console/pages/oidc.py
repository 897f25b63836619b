"""Sign-in with an OpenID Connect provider: the redirect and the callback."""

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


def _failed(request: HttpRequest, error: str, status: int) -> HttpResponse:
    context = {"form": AuthenticationForm(request), "next": "", "oidc": configured(), "oidc_wrong": error}
    return render(request, "registration/login.html", context, status=status)


@method_decorator(login_not_required, name="dispatch")
class OidcRedirect(OIDCAuthenticationRequestView):  # type: ignore[misc]
    get_settings = staticmethod(setting)

    def __init__(self, **kwargs: Any) -> None:
        # Not the parent's constructor: `get` reads its settings.
        super(OIDCAuthenticationRequestView, self).__init__(**kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        if configured() is None:
            raise Http404("Single sign-on is not configured.")
        try:
            self.OIDC_OP_AUTH_ENDPOINT = self.get_settings("OIDC_OP_AUTHORIZATION_ENDPOINT")
            self.OIDC_RP_CLIENT_ID = self.get_settings("OIDC_RP_CLIENT_ID")
        except ProviderUnavailable as error:
            return _failed(request, str(error), 503)
        answer: HttpResponse = super().get(request)
        return answer


@method_decorator(login_not_required, name="dispatch")
class OidcCallback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        if configured() is None:
            raise Http404("Single sign-on is not configured.")
        try:
            answer: HttpResponse = super().get(request)
        except (SuspiciousOperation, KeyError, ValueError) as error:
            log.warning("a sign-in was refused: %s", error)
            return _failed(request, "The sign-in could not be verified. Try again.", 403)
        except (ProviderUnavailable, requests.RequestException) as error:
            log.warning("a sign-in failed: %s", error)
            return _failed(request, "The sign-in service does not respond. Try again, or use a password.", 503)
        return answer

    def login_failure(self) -> HttpResponse:
        error = "Sign-in refused by the sign-in service, or your user name here belongs to another account."
        return _failed(self.request, error, 403)
