"""The pages of clients: the list of connections, one connection, and one client with all its connections."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.model import ObjectName, object_name
from console.pages.frame import broker_of, check_sees, frame
from console.permissions.rights import host_of


@require_safe
def clients(request: HttpRequest) -> HttpResponse:
    return render(request, "console/clients.html", frame(request, "clients", "Clients"))


@require_safe
def connection(request: HttpRequest) -> HttpResponse:
    """`?object=`: a connection. The page also exists for one that does not."""
    text = request.GET.get("object", "")
    try:
        name = ObjectName.parse(text)
    except ValueError:
        raise Http404(f"{text!r} is not the name of a connection.") from None
    if name.type != "Connection":
        raise Http404(f"{text} is not a connection.")
    check_sees(request, broker_of(request)["slug"], host_of(name))
    title = f"Connection {name['id']}"
    return _client(request, title, host=name["virtualhost"], object=str(name), client_user="", container_id="")


@require_safe
def client(request: HttpRequest) -> HttpResponse:
    """`?virtualhost=`, `user=` and `container_id=`, one of the last two at least: a client, connected or not."""
    host, user, container = (request.GET.get(name, "") for name in ("virtualhost", "user", "container_id"))
    if not host or not (user or container):
        raise Http404("A client has a virtual host, and a user or a container-id.")
    check_sees(request, broker_of(request)["slug"], host)
    title = " · ".join(each for each in (user, container) if each)
    return _client(request, title, host=host, object="", client_user=user, container_id=container)


def _client(request: HttpRequest, title: str, *, host: str, **about: str) -> HttpResponse:
    scope = str(object_name("VirtualHost", name=host))
    context = frame(request, "clients", title, about=host, virtualhost=host, scope=scope, **about)
    return render(request, "console/client.html", context)
