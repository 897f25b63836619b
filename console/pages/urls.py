"""Where the pages are."""

from __future__ import annotations

from django.urls import path

from console.pages.api_docs import api_docs
from console.pages.audit import audit
from console.pages.objects import objects
from console.pages.overview import overview
from console.pages.queue import queue
from console.pages.timeline import timeline
from console.pages.why import why

urlpatterns = [
    path("", overview, name="overview"),
    path("queues/<str:virtualhost>/<path:name>/", queue, name="queue"),
    path("timeline/", timeline, name="timeline"),
    path("why/", why, name="why"),
    path("objects/", objects, name="objects"),
    path("audit/", audit, name="audit"),
    path("api/", api_docs, name="api-docs"),
]
