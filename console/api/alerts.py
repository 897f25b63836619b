"""Alerts: rules, receivers, silences, allowed private networks, and the delivery log of notifications."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from django.db.models import F, Model, QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue, NotFound
from console.access.actor import Actor
from console.alerts import editing, receiver_editing, visibility
from console.alerts.editing import rule_json, silence_json
from console.alerts.messages import short_name, titles
from console.alerts.models import (
    Alert,
    AlertState,
    AllowedNetwork,
    Delivery,
    DeliveryState,
    Kind,
    Notification,
    Receiver,
    Rule,
    Silence,
)
from console.alerts.reachability import delivery_warning
from console.alerts.receiver_editing import receiver_json
from console.api import alerts_schema as shapes
from console.api import schema
from console.api.base_views import PersonalView, choice_in, number_in

#: Alerts that are listed at most.
MAX_ALERTS = 1000


def actor(request: Request) -> Actor:
    return Actor.of(request._request)


def changes_and_version(body: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the fields to change, and the version that the client read."""
    return {name: value for name, value in body.items() if name != "version"}, body["version"]


def find_row(rows: QuerySet[Any], number: object, what: str) -> Any:
    """Return the row with this primary key; `what` names it in the error. Raises NotFound."""
    found: Model | None = rows.filter(pk=number).first()
    if found is None:
        raise NotFound(f"there is no {what} {number}")
    return found


def _current_names(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a rule with `tell_resolved` under its current name. Raises InvalidValue if both are
    given."""
    fields = dict(body)
    if "tell_resolved" in fields:
        if "send_resolved" in fields:
            raise InvalidValue({"tell_resolved": "tell_resolved is the former name of send_resolved: give one of them"})
        fields["send_resolved"] = fields.pop("tell_resolved")
    return fields


def _rules() -> QuerySet[Rule]:
    return Rule.objects.prefetch_related("receivers", "silences")


def _rule(view: PersonalView, number: int) -> Rule:
    """Return the rule. Raises NotFound, also if the user may not see it."""
    rule: Rule = find_row(_rules(), number, "rule")
    if not visibility.can_see_rule(view.rights, rule):
        raise NotFound(f"there is no rule {number}")
    return rule


class KindsView(PersonalView):
    @extend_schema(responses={200: shapes.AlertKind(many=True)}, summary="List conditions and events for rules")
    def get(self, request: Request) -> Response:
        from brokers.model import NOTIFICATIONS

        return Response(
            [{"kind": kind, "title": title, "event": kind in NOTIFICATIONS} for kind, title in titles().items()]
        )


class AlertsView(PersonalView):
    @extend_schema(responses={200: shapes.Alert(many=True)}, summary="List active and pending alerts, newest first")
    def get(self, request: Request) -> Response:
        title_of = titles()
        rows = Alert.objects.select_related("rule").filter(state__in=[AlertState.PENDING, AlertState.FIRING])
        # An alert that has just fired may have an old start.
        newest_first = rows.order_by("state", F("fired").desc(nulls_last=True), "-since")
        visible = (
            alert
            for alert in newest_first.iterator()
            if visibility.can_see_object(self.rights, alert.broker, alert.object)
        )
        shown = [
            {
                "rule": alert.rule_id,
                "rule_name": alert.rule.name,
                "broker": alert.broker,
                "object": alert.object,
                "name": short_name(alert.object),
                "kind": alert.kind,
                "title": title_of.get(alert.kind, alert.kind),
                "state": alert.state,
                "severity": alert.severity,
                "saw": alert.saw,
                "advice": alert.advice,
                "since": alert.since,
                "notified": alert.notified,
                "silenced": alert.silenced,
            }
            for alert in islice(visible, MAX_ALERTS)
        ]
        return Response(shown)


class RulesView(PersonalView):
    @extend_schema(responses={200: shapes.Rule(many=True)}, operation_id="alerts_rules_list", summary="List rules")
    def get(self, request: Request) -> Response:
        return Response([rule_json(rule) for rule in _rules() if visibility.can_see_rule(self.rights, rule)])

    @extend_schema(
        request=shapes.RuleGiven, responses={201: shapes.Rule, **schema.WRITE_REFUSALS}, summary="Create a rule"
    )
    def post(self, request: Request) -> Response:
        rule = editing.create_rule(actor(request), _current_names(self.body))
        return Response(rule_json(find_row(_rules(), rule.pk, "rule")), status=201)


class RuleView(PersonalView):
    @extend_schema(responses={200: shapes.Rule, **schema.READ_REFUSALS}, summary="Get a rule")
    def get(self, request: Request, number: int) -> Response:
        return Response(rule_json(_rule(self, number)))

    @extend_schema(
        request=shapes.RuleChange,
        responses={200: shapes.Rule, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a rule",
    )
    def patch(self, request: Request, number: int) -> Response:
        changes, version = changes_and_version(_current_names(self.body))
        rule = editing.change_rule(actor(request), _rule(self, number), changes, version)
        return Response(rule_json(find_row(_rules(), rule.pk, "rule")))

    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Delete a rule")
    def delete(self, request: Request, number: int) -> Response:
        editing.delete_rule(actor(request), _rule(self, number))
        return Response(status=204)


def _saved(receiver: Receiver) -> dict[str, Any]:
    return {**receiver_json(receiver, whole=True), "warning": delivery_warning(receiver)}


class ReceiversView(PersonalView):
    @extend_schema(
        responses={200: shapes.Receiver(many=True)}, operation_id="alerts_receivers_list", summary="List receivers"
    )
    def get(self, request: Request) -> Response:
        return Response(
            [
                receiver_json(receiver, whole=visibility.can_see_receivers(self.rights))
                for receiver in Receiver.objects.all()
            ]
        )

    @extend_schema(
        request=shapes.ReceiverWithKey,
        responses={201: shapes.NewReceiver, **schema.WRITE_REFUSALS},
        summary="Create a receiver",
        description="The secret that signs a webhook's requests is generated and only returned in this response."
        " `warning` says why deliveries would fail now, such as a private network that is not allowed.",
    )
    def post(self, request: Request) -> Response:
        receiver = receiver_editing.create_receiver(actor(request), self.body)
        secret = receiver.secret if receiver.kind == Kind.WEBHOOK else ""
        return Response({**_saved(receiver), "secret": secret}, status=201)


class ReceiverView(PersonalView):
    @extend_schema(responses={200: shapes.Receiver, **schema.READ_REFUSALS}, summary="Get a receiver")
    def get(self, request: Request, number: int) -> Response:
        return Response(
            receiver_json(
                find_row(Receiver.objects.all(), number, "receiver"), whole=visibility.can_see_receivers(self.rights)
            )
        )

    @extend_schema(
        request=shapes.ReceiverChange,
        responses={200: shapes.SavedReceiver, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a receiver",
    )
    def patch(self, request: Request, number: int) -> Response:
        found = find_row(Receiver.objects.all(), number, "receiver")
        return Response(
            _saved(receiver_editing.change_receiver(actor(request), found, *changes_and_version(self.body)))
        )

    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Delete a receiver")
    def delete(self, request: Request, number: int) -> Response:
        receiver_editing.delete_receiver(actor(request), find_row(Receiver.objects.all(), number, "receiver"))
        return Response(status=204)


class ReceiverTestView(PersonalView):
    @extend_schema(
        request=None,
        responses={201: shapes.Delivery, **schema.WRITE_REFUSALS},
        summary="Send a test message to a receiver",
    )
    def post(self, request: Request, number: int) -> Response:
        made = receiver_editing.send_test(actor(request), find_row(Receiver.objects.all(), number, "receiver"))
        made.refresh_from_db()
        return Response(_delivery(made), status=201)


class ReceiverSecretView(PersonalView):
    @extend_schema(
        request=None, responses={200: shapes.Secret, **schema.WRITE_REFUSALS}, summary="Generate a new secret"
    )
    def post(self, request: Request, number: int) -> Response:
        return Response(
            {
                "secret": receiver_editing.renew_secret(
                    actor(request), find_row(Receiver.objects.all(), number, "receiver")
                )
            }
        )


class SilencesView(PersonalView):
    @extend_schema(responses={200: shapes.Silence(many=True)}, summary="List active silences")
    def get(self, request: Request) -> Response:
        rows = Silence.objects.select_related("rule").filter(until__gt=timezone.now())
        return Response([silence_json(each) for each in rows if visibility.can_see_rule(self.rights, each)])

    @extend_schema(
        request=shapes.SilenceGiven,
        responses={201: shapes.Silence, **schema.WRITE_REFUSALS},
        summary="Create a silence",
    )
    def post(self, request: Request) -> Response:
        return Response(silence_json(editing.create_silence(actor(request), self.body)), status=201)


class SilenceView(PersonalView):
    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="End a silence")
    def delete(self, request: Request, number: int) -> Response:
        editing.end_silence(actor(request), find_row(Silence.objects.select_related("rule"), number, "silence"))
        return Response(status=204)


class NetworksView(PersonalView):
    @extend_schema(
        responses={200: shapes.Network(many=True)},
        summary="List allowed private networks",
    )
    def get(self, request: Request) -> Response:
        return Response(list(AllowedNetwork.objects.values("id", "network", "added", "added_by")))

    @extend_schema(
        request=shapes.NetworkGiven,
        responses={201: shapes.Network, **schema.WRITE_REFUSALS},
        summary="Add an allowed network (administrators)",
    )
    def post(self, request: Request) -> Response:
        made = editing.add_network(actor(request), self.body["network"])
        shown = {"id": made.pk, "network": made.network, "added": made.added, "added_by": made.added_by}
        return Response(shown, status=201)


class NetworkView(PersonalView):
    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Remove an allowed network (administrators)")
    def delete(self, request: Request, number: int) -> Response:
        editing.remove_network(actor(request), find_row(AllowedNetwork.objects.all(), number, "network"))
        return Response(status=204)


class LogView(PersonalView):
    @extend_schema(
        parameters=[
            schema.parameter("rule", "Notifications of the rule with this number.", int),
            schema.parameter("state", "Notifications with a delivery in this state.", enum=DeliveryState.values),
            *schema.PAGE,
        ],
        responses={200: schema.page_of(shapes.Notification), **schema.READ_REFUSALS},
        summary="List notifications with their deliveries, newest first",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number, size = number_in(query, "page", 1, 1, 1 << 31), number_in(query, "page_size", 50, 1, 200)
        rows = Notification.objects.prefetch_related("deliveries")
        if rule := number_in(query, "rule", 0, 1, 1 << 31):
            rows = rows.filter(rule=rule)
        if state := choice_in(query, "state", DeliveryState.values):
            rows = rows.filter(deliveries__state=state).distinct()
        if not visibility.can_see_all(self.rights):
            rows = rows.filter(
                pk__in=[each.pk for each in visibility.visible_notifications(self.rights, rows[:_MAX_SEARCHED])]
            )
        shown = [_notification(self, each) for each in rows[(number - 1) * size : number * size]]
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})


class DeliveryView(PersonalView):
    @extend_schema(
        responses={200: shapes.Delivery, **schema.READ_REFUSALS},
        summary="Get a delivery",
        description="Such as the outcome of a test message, which is attempted once.",
    )
    def get(self, request: Request, number: int) -> Response:
        found: Delivery = find_row(Delivery.objects.select_related("notification"), number, "delivery")
        if not list(visibility.visible_notifications(self.rights, [found.notification])):
            raise NotFound(f"there is no delivery {number}")
        return Response(_delivery(found, log=visibility.can_see_receivers(self.rights)))


class RetryDeliveryView(PersonalView):
    @extend_schema(
        request=None,
        responses={200: shapes.Delivery, **schema.WRITE_REFUSALS},
        summary="Retry a failed delivery",
    )
    def post(self, request: Request, number: int) -> Response:
        found: Delivery = find_row(Delivery.objects.all(), number, "delivery")
        receiver_editing.retry_delivery(actor(request), found)
        found.refresh_from_db()
        return Response(_delivery(found))


#: Newest notifications that are searched for those that a user with limited permissions may see.
_MAX_SEARCHED = 2000


def _notification(view: PersonalView, notification: Notification) -> dict[str, Any]:
    whole = visibility.can_see_all(view.rights)
    items = notification.items if whole else visibility.visible_items(view.rights, notification)
    # A receiver's answer may contain an address, which is for users who may edit receivers.
    log = visibility.can_see_receivers(view.rights)
    return {
        "id": str(notification.id),
        "at": notification.at,
        "rule": notification.rule_id,
        "rule_name": notification.rule_name,
        "broker": notification.broker,
        "phase": notification.phase,
        "items": items,
        "count": notification.count if whole else len(items),
        "deliveries": [_delivery(each, log=log) for each in notification.deliveries.all()],
    }


def _delivery(delivery: Delivery, *, log: bool = True) -> dict[str, Any]:
    return {
        "id": delivery.pk,
        "receiver": delivery.receiver_id,
        "receiver_name": delivery.receiver_name,
        "state": delivery.state,
        "due": delivery.due if delivery.state == DeliveryState.WAITING else None,
        "finished": delivery.finished,
        "tries": delivery.tries,
        "attempts": delivery.attempts if log else [{**each, "outcome": ""} for each in delivery.attempts],
    }
