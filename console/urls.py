"""Where each URL goes. Wiring only."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

handler403 = "console.pages.errors.forbidden"
handler404 = "console.pages.errors.not_found"
handler500 = "console.pages.errors.server_error"

urlpatterns = [
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", include("console.pages.urls")),
]
