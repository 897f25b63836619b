"""The pages of flow-control policies: all scopes, one scope with its effective values, and import and export."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.admin import AdminError
from brokers.model import ObjectName, object_name
from console.access.user_rights import request_rights
from console.links.link import BrokerLink
from console.links.visible import visible_link
from console.operations import export_policies
from console.operations.policies import EXPLAIN, SCOPES, fields_of, has_operation
from console.pages.frame import broker_of, check_sees, frame
from console.pages.policy_fields import fields_at, link_of, policy_fields
from console.permissions.rights import host_of


@require_safe
def policies(request: HttpRequest) -> HttpResponse:
    here = link_of(request)
    patterns = here.types.get("Policy")
    context = frame(
        request,
        "policies",
        "Policies",
        policy=policy_fields(),
        scopes=[name for name in SCOPES if fields_of(here.types, name)],
        creatable=patterns is not None and patterns.creatable,
        orders=has_operation(here, "Policy", EXPLAIN),
    )
    inherits = has_operation(here, "Policy", EXPLAIN)
    return render(request, "console/policies.html", {**context, "inherits": inherits})


@require_safe
def policy(request: HttpRequest) -> HttpResponse:
    """`?object=`: the object name of a scope; `?new=`: the virtual host of a new pattern."""
    new = request.GET.get("new", "")
    name = object_name("VirtualHost", name=new) if new else _scope(request.GET.get("object", "type=Broker"))
    check_sees(request, broker_of(request)["slug"], host_of(name))
    here, type_name = link_of(request), "Policy" if new else name.type
    if not fields_of(here.types, type_name):
        raise Http404(f"{here.title} has no flow-control policy of {_KINDS[type_name].lower()}s.")
    priority = here.types[type_name].attribute("priority")
    kind, title = ("Pattern", "New pattern") if new else (_KINDS[name.type], name.keys[-1][1] if name.keys else "")
    context = frame(
        request,
        "policy",
        f"{kind} {title}".strip(),
        policy=fields_at(request, type_name),
        about=host_of(name),
        explains=has_operation(here, name.type, EXPLAIN),
        patternHint=_description(here, "pattern"),
        priorityHint=_description(here, "priority"),
        hasPriority=priority is not None and (priority.writable or priority.creatable),
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
            "scope": name,
            "host": name.get("virtualhost") or new,
            "new": new,
            "is_pattern": bool(new) or name.type == "Policy",
            "removable": name.type == "Policy" and not new and here.types["Policy"].deletable,
        },
    )


@require_safe
def policy_file(request: HttpRequest) -> HttpResponse:
    """Import with a dry run, and export."""
    context = frame(request, "policy-file", "Policies as a file", policy=policy_fields())
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


def _description(here: BrokerLink, attribute: str) -> str:
    """Return what an attribute of a pattern means at this broker."""
    declared = here.types["Policy"].attribute(attribute) if "Policy" in here.types else None
    return declared.description if declared else ""


def _scope(text: str) -> ObjectName:
    try:
        name = ObjectName.parse(text)
    except ValueError as error:
        raise Http404(str(error)) from None
    if name.type not in SCOPES:
        raise Http404(f"{name.type} has no flow-control policy; {', '.join(SCOPES)} have one.")
    return name
