"""Serializers of the API for adding and changing brokers."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from brokers.adapters.kinds import KINDS
from console.api.fields import FlagField, TextField, change_of
from console.api.schema import Broker, Refusal, text_field

REASON = "Why, for the audit trail."


class Capability(serializers.Serializer[Any]):
    object_type = text_field("Type of managed objects.")
    operation = text_field("Name of the operation.")
    producer_effect = text_field(
        "What a stop does to producers: hold, trickle, reject or cut. Empty: the operation is no stop."
    )
    remark = text_field("What an operator must know before the call; empty: nothing special.")


class Capabilities(serializers.Serializer[Any]):
    types = serializers.ListField(child=serializers.CharField(), help_text="Types of managed objects that it has.")
    operations = Capability(many=True, help_text="Operations that it has.")


class ListedBroker(Broker):
    kind = text_field("Kind of broker: headgate, or one of those that can be added.")
    tags = serializers.ListField(child=serializers.CharField(), help_text="Tags such as prod or eu.")
    paused = serializers.BooleanField(help_text="Whether it is not polled.")
    added = serializers.BooleanField(help_text="Whether it was added here; false: it is part of the settings.")
    capabilities = Capabilities(allow_null=True, help_text="What it has; null before the first connection.")


class BrokerKind(serializers.Serializer[Any]):
    kind = text_field("Name of the kind.")
    title = text_field("Name for people.")
    url = text_field("Example of the address of its management interface.")


class AddedBroker(serializers.Serializer[Any]):
    slug = text_field("Identifier.")
    title = text_field("Display name.")
    kind = text_field("Kind of broker.")
    url = text_field("Address of its management interface; several are separated by spaces.")
    username = text_field("User that the console signs in as.")
    has_password = serializers.BooleanField(help_text="Whether a password is stored. It is never returned.")
    authority = text_field("Certificate authorities that are trusted: PEM text, or path of a file on the server.")
    tags = serializers.ListField(child=serializers.CharField(), help_text="Tags.")
    paused = serializers.BooleanField(help_text="Whether it is not polled.")


class BrokerGiven(serializers.Serializer[Any]):
    slug = TextField("Identifier in paths and `?broker=`: 1 to 30 of a-z, 0-9 and hyphens.", max_length=30)
    title = TextField("Display name.", required=False, max_length=80)
    kind = serializers.ChoiceField(choices=list(KINDS), help_text="Kind of broker.")
    url = TextField(
        "Address of its management interface, without user and password: http or https; Artemis: also amqp or amqps. "
        "Several of one broker, such as the nodes of a cluster, are separated by spaces; the first that answers is "
        "used.",
        max_length=500,
    )
    username = TextField("User that the console signs in as.", default="", max_length=255)
    password = TextField("Stored encrypted, never returned.", default="", max_length=1000)
    authority = TextField(
        "Certificate authorities to trust: PEM text, or path of a file on the server. Empty: the system's.", default=""
    )
    tags = serializers.ListField(child=TextField(max_length=30), default=list, help_text="Tags such as prod or eu.")
    paused = FlagField("Whether to add it without polling it.")
    reason = TextField(REASON, default="")


#: `password` empty: without one; omitted: unchanged, or, with a new URL, refused.
BrokerChange = change_of(
    "BrokerChange",
    BrokerGiven,
    "slug",
    "kind",
    leave_stops=FlagField("Pause it, or change its URL, also with stops in force, which stay so on the broker."),
)


class LeftStops(Refusal):
    stops = serializers.ListField(
        child=serializers.DictField(), help_text="The stops in force: scope, reason, actor, since, until, below."
    )


STOPS = OpenApiResponse(LeftStops, description="It has stops in force: confirm with leave_stops, or start them first.")


class BrokerTest(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=list(KINDS), help_text="Kind of broker.")
    url = TextField("Address of its management interface; several are separated by spaces.", max_length=500)
    username = TextField("User.", default="", max_length=255)
    password = TextField("Password.", default="", max_length=1000)
    authority = TextField("Certificate authorities to trust.", default="")


#: Omitted: as stored.
StoredBrokerTest = change_of("StoredBrokerTest", BrokerTest, "kind")


class Finding(serializers.Serializer[Any]):
    text = text_field("What was found.")
    fault = text_field("What is missing; empty: nothing.")


class BrokerTestAnswer(serializers.Serializer[Any]):
    ok = serializers.BooleanField(help_text="Whether nothing is missing.")
    findings = Finding(many=True, help_text="A sentence each.")


class BrokerFile(serializers.Serializer[Any]):
    yaml = text_field("File of the added brokers, without passwords.")


class BrokerPassword(serializers.Serializer[Any]):
    slug = TextField("Broker of the file.", max_length=30)
    password = TextField("Its password.", max_length=1000)


class BrokerFileRequest(serializers.Serializer[Any]):
    yaml = TextField("File of brokers.", allow_blank=True)
    passwords = BrokerPassword(many=True, default=list, help_text="The passwords that the file names.")
    prune = FlagField("Remove added brokers that are not in the file.")
    dry_run = FlagField("Return the changes; change nothing.")
    digest = TextField("Digest of the dry run: refused if the changes would now be different.", default="")
    reason = TextField(REASON, default="")


class BrokerFileChange(serializers.Serializer[Any]):
    slug = text_field("Broker.")
    action = text_field("update, create or delete.")
    attributes = serializers.DictField(help_text="New values; of a password only that it changes.")
    was = serializers.DictField(help_text="Current values of the attributes.")


class BrokerFileApplied(serializers.Serializer[Any]):
    slug = text_field("Broker.")
    action = text_field("update, create or delete.")
    outcome = text_field("done or refused.")
    detail = text_field("Explanation, unless the outcome is done.")


class NamedPassword(serializers.Serializer[Any]):
    slug = text_field("Broker.")
    key = text_field("password_file or password_env.")
    name = text_field("Path of the file, or name of the environment variable, where the file is applied.")


class BrokerFileAnswer(serializers.Serializer[Any]):
    changes = BrokerFileChange(many=True)
    problems = serializers.DictField(help_text="Errors by slug.")
    left_alone = serializers.ListField(
        child=serializers.CharField(), help_text="Added brokers that are not in the file and stay."
    )
    passwords = NamedPassword(many=True, help_text="The passwords that the file names.")
    digest = text_field("Identifies this list of changes.")
    applied = BrokerFileApplied(many=True)
