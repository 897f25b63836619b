"""The ASGI application: HTTP to Django, WebSockets to `console/live/`. Wiring only."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
_http = get_asgi_application()  # sets Django up, so it comes before what needs its models

from channels.routing import ProtocolTypeRouter  # noqa: E402

from console.alerts.firing import MAX_ALERTS, is_visible  # noqa: E402
from console.alerts.firing import firing_alerts as read_firing  # noqa: E402
from console.intake.bodies import limited  # noqa: E402
from console.intake.request_ids import with_request_id  # noqa: E402
from console.live import firing_alerts  # noqa: E402
from console.live.routing import websocket_application  # noqa: E402

firing_alerts.source = firing_alerts.FiringAlerts(read_firing, is_visible, MAX_ALERTS)

routes = ProtocolTypeRouter({"http": limited(_http), "websocket": websocket_application})
application = with_request_id(routes)
