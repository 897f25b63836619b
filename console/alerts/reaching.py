"""Whether a receiver can be told anything as things are now: said when it is saved, and not first when an alert fails.

It is saved all the same: an administrator may allow a network later, and a name may be known to come.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late

from django.conf import settings

from console.alerts.addresses import NotAllowed, network_of, resolved, url_of
from console.alerts.models import AllowedNetwork, Kind, Receiver

#: Seconds to look up a name: who saves waits for it.
PATIENCE = 2.0

NO_MAIL_SERVER = "no mail server is configured: set HEADGATE_MAIL_HOST and start the worker again"


def delivery_warning(receiver: Receiver) -> str:
    """Why nothing would reach it now, a sentence; empty: nothing is known to be in the way."""
    if receiver.kind == Kind.EMAIL:
        return "" if settings.EMAIL_HOST else NO_MAIL_SERVER
    url = url_of(receiver.url)
    assert url.hostname is not None
    allowed = [network_of(each.network) for each in AllowedNetwork.objects.all()]
    looking = ThreadPoolExecutor(1)
    try:
        looking.submit(resolved, url.hostname, url.port or 443, allowed).result(PATIENCE)
    except NotAllowed as error:
        return str(error)
    except (Late, UnicodeError):
        return f"{url.hostname} could not be looked up within {PATIENCE:g} s"
    except socket.gaierror as error:
        return f"{url.hostname} cannot be found: {error.strerror}"
    except OSError as error:
        return f"{url.hostname} cannot be looked up: {error}"
    finally:
        looking.shutdown(wait=False)
    return ""
