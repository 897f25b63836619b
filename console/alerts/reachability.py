"""Check whether a receiver is reachable, when it is saved: a warning then is better than a failed alert later.

It is only a warning: an administrator may allow the network later, and a host name may not be registered yet.
"""

from __future__ import annotations

import socket

from django.conf import settings

from console.alerts.addresses import NotAllowed, network_of, resolved, url_of
from console.alerts.models import AllowedNetwork, Kind, Receiver

#: Seconds to look up a host name, while the user who saves the receiver waits.
LOOKUP_TIMEOUT = 2.0

NO_MAIL_SERVER = "no mail server is configured: set HEADGATE_MAIL_HOST and restart the worker"


def delivery_warning(receiver: Receiver) -> str:
    """Return why deliveries would fail now, as a sentence; empty if there is no known obstacle."""
    if receiver.kind == Kind.EMAIL:
        return "" if settings.EMAIL_HOST else NO_MAIL_SERVER
    url = url_of(receiver.url)  # of Slack and Teams without its path, which is a secret
    assert url.hostname is not None
    allowed = [network_of(each.network) for each in AllowedNetwork.objects.all()]
    try:
        resolved(url.hostname, url.port or 443, allowed, LOOKUP_TIMEOUT)
    except (NotAllowed, TimeoutError) as error:
        return str(error)
    except UnicodeError:
        return f"{url.hostname} is not a host name"
    except socket.gaierror as error:
        return f"{url.hostname} cannot be found: {error.strerror}"
    except OSError as error:
        return f"{url.hostname} cannot be looked up: {error}"
    return ""
