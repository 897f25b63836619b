"""The pages of flow-control policies: all scopes, one scope with its effective values, and import and export."""

from __future__ import annotations

from dataclasses import asdict

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.admin import AdminError
from brokers.model import POLICY, ObjectName, object_name
from console.access.user_rights import request_rights
from console.links.visible import visible_link
from console.operations import export_policies
from console.operations.policies import SCOPES
from console.pages.frame import broker_of, check_sees, frame
from console.permissions.rights import host_of

_FIELDS = [asdict(attribute) for attribute in POLICY]


@require_safe
def policies(request: HttpRequest) -> HttpResponse:
    return render(request, "console/policies.html", frame(request, "policies", "Policies", policy=_FIELDS))


@require_safe
def policy(request: HttpRequest) -> HttpResponse:
    """`?object=`: the object name of a scope; `?new=`: the virtual host of a new pattern."""
    new = request.GET.get("new", "")
    name = object_name("VirtualHost", name=new) if new else _scope(request.GET.get("object", "type=Broker"))
    check_sees(request, broker_of(request)["slug"], host_of(name))
    kind, title = ("Pattern", "New pattern") if new else (_KINDS[name.type], name.keys[-1][1] if name.keys else "")
    context = frame(
        request,
        "policy",
        f"{kind} {title}".strip(),
        policy=_FIELDS,
        about=host_of(name),
        object=str(name),
        new=new,
        type=name.type,
    )
    if name.type == "Broker":
        context["may_edit"] = context["page_settings"]["mayEdit"] = context["page_settings"]["may"]["edit"] is None
    return render(
        request,
        "console/policy.html",
        {
            **context,
            "page": "policies",
            "kind": kind,
            "heading": title or "Defaults for every queue",
            "host": name.get("virtualhost") or new,
            "new": new,
            "is_pattern": bool(new) or name.type == "Policy",
        },
    )


@require_safe
def policy_file(request: HttpRequest) -> HttpResponse:
    """Import with a dry run, and export."""
    context = frame(request, "policy-file", "Policies as a file", policy=_FIELDS)
    return render(request, "console/policy_file.html", {**context, "page": "policies"})


@require_safe
def export(request: HttpRequest) -> HttpResponse:
    """Download all policies as a YAML file."""
    slug = broker_of(request)["slug"]
    try:
        text = export_policies(visible_link(request_rights(request), slug))
    except AdminError as error:
        return render(request, "404.html", {"title": "No export", "said": f"{error}."}, status=503)
    answer = HttpResponse(text, content_type="application/yaml; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="policies-{slug}.yaml"'
    return answer


_KINDS = {
    "Broker": "Broker",
    "VirtualHost": "Virtual host",
    "Exchange": "Exchange",
    "Policy": "Pattern",
    "Queue": "Queue",
}


def _scope(text: str) -> ObjectName:
    try:
        name = ObjectName.parse(text)
    except ValueError as error:
        raise Http404(str(error)) from None
    if name.type not in SCOPES:
        raise Http404(f"{name.type} has no flow-control policy; {', '.join(SCOPES)} have one.")
    return name
