"""Alerts: rules, receivers, silences, networks that webhooks may reach, and the log of what was told to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Model, QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import NotFound
from console.access.actor import Actor
from console.alerts import editing, visibility
from console.alerts.editing import receiver_shown, rule_shown, silence_shown
from console.alerts.models import (
    Alert,
    AlertState,
    AllowedNetwork,
    Delivery,
    DeliveryState,
    Notification,
    Receiver,
    Rule,
    Silence,
)
from console.alerts.reaching import warning_of
from console.alerts.wording import short, titles
from console.api import alerts_schema as shapes
from console.api import schema
from console.api.reading import PersonalView, choice_in, number_in


def actor(request: Request) -> Actor:
    return Actor.of(request._request)


def given_and_version(body: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """What is to be changed, and the version that the change was made from."""
    return {name: value for name, value in body.items() if name != "version"}, body["version"]


def one(rows: QuerySet[Any], number: object, what: str) -> Any:
    """Raises NotFound."""
    found: Model | None = rows.filter(pk=number).first()
    if found is None:
        raise NotFound(f"there is no {what} {number}")
    return found


def _rules() -> QuerySet[Rule]:
    return Rule.objects.prefetch_related("receivers", "silences")


def _rule(view: PersonalView, number: int) -> Rule:
    """Raises NotFound, also for one that they do not see."""
    rule: Rule = one(_rules(), number, "rule")
    if not visibility.sees_rule(view.rights, rule):
        raise NotFound(f"there is no rule {number}")
    return rule


class KindsView(PersonalView):
    @extend_schema(responses={200: shapes.AlertKind(many=True)}, summary="What rules can be about")
    def get(self, request: Request) -> Response:
        from brokers.model import NOTIFICATIONS

        return Response(
            [{"kind": kind, "title": title, "event": kind in NOTIFICATIONS} for kind, title in titles().items()]
        )


class AlertsView(PersonalView):
    @extend_schema(responses={200: shapes.Alert(many=True)}, summary="Alerts that fire or are about to, newest first")
    def get(self, request: Request) -> Response:
        named = titles()
        rows = Alert.objects.select_related("rule").filter(state__in=[AlertState.PENDING, AlertState.FIRING])
        shown = [
            {
                "rule": alert.rule_id,
                "rule_name": alert.rule.name,
                "broker": alert.broker,
                "object": alert.object,
                "name": short(alert.object),
                "kind": alert.kind,
                "title": named.get(alert.kind, alert.kind),
                "state": alert.state,
                "severity": alert.severity,
                "saw": alert.saw,
                "advice": alert.advice,
                "since": alert.since,
                "notified": alert.notified,
                "silenced": alert.silenced,
            }
            for alert in rows.order_by("state", "-since")[:1000]
            if visibility.sees_object(self.rights, alert.broker, alert.object)
        ]
        return Response(shown)


class RulesView(PersonalView):
    @extend_schema(responses={200: shapes.Rule(many=True)}, operation_id="alerts_rules_list", summary="Rules")
    def get(self, request: Request) -> Response:
        return Response([rule_shown(rule) for rule in _rules() if visibility.sees_rule(self.rights, rule)])

    @extend_schema(
        request=shapes.RuleGiven, responses={201: shapes.Rule, **schema.WRITE_REFUSALS}, summary="Make a rule"
    )
    def post(self, request: Request) -> Response:
        rule = editing.make_rule(actor(request), self.body)
        return Response(rule_shown(one(_rules(), rule.pk, "rule")), status=201)


class RuleView(PersonalView):
    @extend_schema(responses={200: shapes.Rule, **schema.READ_REFUSALS}, summary="One rule")
    def get(self, request: Request, number: int) -> Response:
        return Response(rule_shown(_rule(self, number)))

    @extend_schema(
        request=shapes.RuleChange,
        responses={200: shapes.Rule, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a rule",
    )
    def patch(self, request: Request, number: int) -> Response:
        rule = editing.change_rule(actor(request), _rule(self, number), *given_and_version(self.body))
        return Response(rule_shown(one(_rules(), rule.pk, "rule")))

    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Remove a rule")
    def delete(self, request: Request, number: int) -> Response:
        editing.remove_rule(actor(request), _rule(self, number))
        return Response(status=204)


def _saved(receiver: Receiver) -> dict[str, Any]:
    return {**receiver_shown(receiver, whole=True), "warning": warning_of(receiver)}


class ReceiversView(PersonalView):
    @extend_schema(
        responses={200: shapes.Receiver(many=True)}, operation_id="alerts_receivers_list", summary="Receivers"
    )
    def get(self, request: Request) -> Response:
        return Response(
            [
                receiver_shown(receiver, whole=visibility.sees_receivers(self.rights))
                for receiver in Receiver.objects.all()
            ]
        )

    @extend_schema(
        request=shapes.ReceiverGiven,
        responses={201: shapes.NewReceiver, **schema.WRITE_REFUSALS},
        summary="Make a receiver",
        description="The secret that signs a webhook's requests is generated, and told this once. `warning` says why"
        " nothing would reach the receiver now, such as a network that no administrator has allowed.",
    )
    def post(self, request: Request) -> Response:
        receiver = editing.make_receiver(actor(request), self.body)
        return Response({**_saved(receiver), "secret": receiver.secret}, status=201)


class ReceiverView(PersonalView):
    @extend_schema(responses={200: shapes.Receiver, **schema.READ_REFUSALS}, summary="One receiver")
    def get(self, request: Request, number: int) -> Response:
        return Response(
            receiver_shown(
                one(Receiver.objects.all(), number, "receiver"), whole=visibility.sees_receivers(self.rights)
            )
        )

    @extend_schema(
        request=shapes.ReceiverChange,
        responses={200: shapes.SavedReceiver, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Change a receiver",
    )
    def patch(self, request: Request, number: int) -> Response:
        found = one(Receiver.objects.all(), number, "receiver")
        return Response(_saved(editing.change_receiver(actor(request), found, *given_and_version(self.body))))

    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Remove a receiver")
    def delete(self, request: Request, number: int) -> Response:
        editing.remove_receiver(actor(request), one(Receiver.objects.all(), number, "receiver"))
        return Response(status=204)


class ReceiverTestView(PersonalView):
    @extend_schema(
        request=None, responses={201: shapes.Delivery, **schema.WRITE_REFUSALS}, summary="Send a test to a receiver"
    )
    def post(self, request: Request, number: int) -> Response:
        made = editing.try_receiver(actor(request), one(Receiver.objects.all(), number, "receiver"))
        made.refresh_from_db()
        return Response(_delivery(made), status=201)


class ReceiverSecretView(PersonalView):
    @extend_schema(
        request=None, responses={200: shapes.Secret, **schema.WRITE_REFUSALS}, summary="Generate another secret"
    )
    def post(self, request: Request, number: int) -> Response:
        return Response(
            {"secret": editing.renew_secret(actor(request), one(Receiver.objects.all(), number, "receiver"))}
        )


class SilencesView(PersonalView):
    @extend_schema(responses={200: shapes.Silence(many=True)}, summary="Silences in force")
    def get(self, request: Request) -> Response:
        rows = Silence.objects.select_related("rule").filter(until__gt=timezone.now())
        return Response([silence_shown(each) for each in rows if visibility.sees_rule(self.rights, each)])

    @extend_schema(
        request=shapes.SilenceGiven,
        responses={201: shapes.Silence, **schema.WRITE_REFUSALS},
        summary="Silence for a time",
    )
    def post(self, request: Request) -> Response:
        return Response(silence_shown(editing.make_silence(actor(request), self.body)), status=201)


class SilenceView(PersonalView):
    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="End a silence")
    def delete(self, request: Request, number: int) -> Response:
        editing.end_silence(actor(request), one(Silence.objects.select_related("rule"), number, "silence"))
        return Response(status=204)


class NetworksView(PersonalView):
    @extend_schema(
        responses={200: shapes.Network(many=True)},
        summary="Networks that are not public and that webhooks may reach",
    )
    def get(self, request: Request) -> Response:
        return Response(list(AllowedNetwork.objects.values("id", "network", "added", "added_by")))

    @extend_schema(
        request=shapes.NetworkGiven,
        responses={201: shapes.Network, **schema.WRITE_REFUSALS},
        summary="Let webhooks reach a network that is not public (administrators)",
    )
    def post(self, request: Request) -> Response:
        made = editing.allow_network(actor(request), self.body["network"])
        shown = {"id": made.pk, "network": made.network, "added": made.added, "added_by": made.added_by}
        return Response(shown, status=201)


class NetworkView(PersonalView):
    @extend_schema(responses={204: None, **schema.WRITE_REFUSALS}, summary="Take that back (administrators)")
    def delete(self, request: Request, number: int) -> Response:
        editing.forbid_network(actor(request), one(AllowedNetwork.objects.all(), number, "network"))
        return Response(status=204)


class LogView(PersonalView):
    @extend_schema(
        parameters=[
            schema.parameter("rule", "Only of this rule, by its number.", int),
            schema.parameter("state", "Only with a delivery in this state.", enum=DeliveryState.values),
            *schema.PAGE,
        ],
        responses={200: schema.page_of(shapes.Notification), **schema.READ_REFUSALS},
        summary="What was told to whom, newest first",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number, size = number_in(query, "page", 1, 1, 1 << 31), number_in(query, "page_size", 50, 1, 200)
        rows = Notification.objects.prefetch_related("deliveries")
        if rule := number_in(query, "rule", 0, 1, 1 << 31):
            rows = rows.filter(rule=rule)
        if state := choice_in(query, "state", DeliveryState.values):
            rows = rows.filter(deliveries__state=state).distinct()
        if not visibility.sees_all(self.rights):
            rows = rows.filter(pk__in=[told.pk for told in visibility.seen(self.rights, rows[:_MOST])])
        shown = [_notification(self, told) for told in rows[(number - 1) * size : number * size]]
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})


class DeliverAgainView(PersonalView):
    @extend_schema(
        request=None,
        responses={200: shapes.Delivery, **schema.WRITE_REFUSALS},
        summary="Try a delivery again that was given up",
    )
    def post(self, request: Request, number: int) -> Response:
        found: Delivery = one(Delivery.objects.all(), number, "delivery")
        editing.deliver_again(actor(request), found)
        found.refresh_from_db()
        return Response(_delivery(found))


#: Notifications that are looked through for those that somebody sees.
_MOST = 2000


def _notification(view: PersonalView, told: Notification) -> dict[str, Any]:
    whole = visibility.sees_all(view.rights)
    items = told.items if whole else visibility.items_seen(view.rights, told)
    # What a receiver answered may name an address: for those who may change receivers.
    log = visibility.sees_receivers(view.rights)
    return {
        "id": str(told.id),
        "at": told.at,
        "rule": told.rule_id,
        "rule_name": told.rule_name,
        "broker": told.broker,
        "phase": told.phase,
        "items": items,
        "count": told.count if whole else len(items),
        "deliveries": [_delivery(each, log=log) for each in told.deliveries.all()],
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
