"""Root URLs. Wiring only."""

from __future__ import annotations

from django.urls import include, path, re_path

from console.api.health import ReadyView, healthz
from console.api.metrics import MetricsView, QueueMetricsView
from console.jolokia.view import jolokia
from console.pages.oidc import OidcCallback, OidcRedirect
from console.pages.sign_in import sign_in, sign_out

handler400 = "console.intake.error_pages.bad_request"
handler403 = "console.intake.error_pages.forbidden"
handler404 = "console.intake.error_pages.not_found"
handler500 = "console.intake.error_pages.server_error"

urlpatterns = [
    path("login/", sign_in, name="login"),
    path("oidc/go/", OidcRedirect.as_view(), name="oidc-go"),
    path("oidc/back/", OidcCallback.as_view(), name="oidc-callback"),
    path("logout/", sign_out, name="logout"),
    path("healthz", healthz, name="healthz"),
    path("readyz", ReadyView.as_view(), name="readyz"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("metrics/queues", QueueMetricsView.as_view(), name="metrics-queues"),
    path("api/", include("console.api.urls")),
    re_path(r"^jolokia(?:/(?P<rest>(?s:.*)))?$", jolokia, name="jolokia"),
    path("", include("console.pages.urls")),
]
