"""Sign-in with an OpenID Connect provider: the redirect and the callback."""

from __future__ import annotations

import logging
from typing import Any

import requests
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from brokers.input_checks import on_one_line, shortened
from console.access.oidc import ProviderUnavailable, configured, setting
from console.access.sign_ins import record_failure, record_sign_in, record_sign_out
from console.audit.models import Outcome

log = logging.getLogger(__name__)

_WAY = "through single sign-on"


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
        before = request.user
        try:
            answer: HttpResponse = super().get(request)
        except SuspiciousOperation as error:
            return self._refused(str(error))
        except (KeyError, ValueError) as error:
            return self._refused(f"the answer of the provider is not valid: {type(error).__name__}")
        except (ProviderUnavailable, requests.RequestException) as error:
            log.warning("a sign-in failed: %s", error)
            record_failure(request, "", f"{_WAY}: the provider does not respond", Outcome.FAILED)
            return _failed(request, "The sign-in service does not respond. Try again, or use a password.", 503)
        if before.is_authenticated and not request.user.is_authenticated:  # the provider returned an error
            record_sign_out(request, before)
        return answer

    def login_success(self) -> HttpResponse:
        before, user = self.request.user, self.user
        with transaction.atomic():
            answer: HttpResponse = super().login_success()
            if before != user:
                record_sign_in(self.request, user, _WAY)
        return answer

    def login_failure(self) -> HttpResponse:
        record_failure(self.request, "", f"{_WAY}: refused by the provider, or the account is not active")
        error = "Sign-in refused by the sign-in service, or your user name here belongs to another account."
        return _failed(self.request, error, 403)

    def _refused(self, why: str) -> HttpResponse:
        log.warning("a sign-in was refused: %s", why)
        record_failure(self.request, "", f"{_WAY}: {shortened(on_one_line(why), 300)}")
        return _failed(self.request, "The sign-in could not be verified. Try again.", 403)
