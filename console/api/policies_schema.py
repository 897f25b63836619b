"""The shapes of policies, bulk edits and what reverts them, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from brokers.model import POLICY, QUEUE_STATES, TYPES
from console.api.fields import FlagField, ObjectNameField, TextField
from console.api.schema import OBJECT, REASON, VERSION, number_field, object_field, shape_of, text_field

PolicyChange = shape_of(
    "PolicyChange",
    POLICY,
    required=False,
    version=number_field(VERSION),
    reason=TextField(REASON, default=""),
)
PolicyCheck = shape_of(
    "PolicyCheck",
    POLICY,
    required=False,
    version=number_field("As for the change itself; it changes nothing here.", required=False),
    reason=TextField("As for the change itself; it changes nothing here.", default=""),
)
Effective = shape_of("Effective", [a for a in TYPES["Queue"].attributes if a.name.startswith("effective_")])


class PolicyChecked(serializers.Serializer[Any]):
    effective = Effective()


class PolicyScope(serializers.Serializer[Any]):
    object = object_field()
    version = number_field("Number of the object's last change.")
    queues = number_field("Queues beneath it; of a pattern those that it is the best match of.", required=False)
    set = serializers.DictField(help_text="The policy fields that it sets, and its priority if that is not 0.")


class PolicyPattern(PolicyScope):
    pattern = text_field("The names it is for.")
    priority = number_field("Decides between patterns that match equally well.")
    rank = serializers.ListField(
        child=serializers.IntegerField(), help_text="Words of its literal prefix, and its wildcards."
    )


class PolicyNamed(PolicyScope):
    name = text_field("Its name.")


class PolicyHost(PolicyNamed):
    patterns = PolicyPattern(many=True, help_text="In the order in which they match.")
    exchanges = PolicyNamed(many=True)


class PolicyQueue(PolicyNamed):
    virtualhost = text_field("Its virtual host.")


class PolicyQueuePage(serializers.Serializer[Any]):
    count = number_field("Queues that set a field themselves.")
    page = number_field("Number of this page, from 1.")
    page_size = number_field("Rows of a full page.")
    results = PolicyQueue(many=True)


class PolicyScopes(serializers.Serializer[Any]):
    broker = PolicyScope()
    virtualhosts = PolicyHost(many=True)
    queues = PolicyQueuePage()


class PolicyChangeAsked(serializers.Serializer[Any]):
    object = ObjectNameField(OBJECT)
    action = serializers.ChoiceField(
        ["update", "create", "delete"], default="update", help_text="create and delete: of a Policy."
    )
    attributes = serializers.DictField(
        default=dict, help_text="Policy fields, null meaning inherited; and the priority of a Policy."
    )
    version = number_field(VERSION, default=None, allow_null=True)


class PolicyChanges(serializers.Serializer[Any]):
    changes = PolicyChangeAsked(many=True, allow_empty=False)
    largest = number_field("Queues to name; those that most happens to come first.", default=20)


_preview = TYPES["Broker"].operation("preview-change")
assert _preview is not None
ChangePreview = shape_of("ChangePreview", _preview.returns)


class PolicyChangeShown(PolicyChangeAsked):
    was = serializers.DictField(help_text="What the attributes are now.")


class PolicyApplied(serializers.Serializer[Any]):
    object = object_field()
    action = text_field("update, create or delete.")
    outcome = text_field("done, refused, failed or unknown.")
    version = number_field("The object's version now; null if it is not known, or the object gone.", allow_null=True)
    detail = text_field("A sentence, unless it is done.")


class PatternOrder(serializers.Serializer[Any]):
    virtualhost = TextField("Name of the virtual host.")
    patterns = serializers.ListField(child=TextField(), help_text="All of its patterns, the best first.")
    reason = TextField(REASON, default="")
    dry_run = FlagField("Tell and preview only.")


class PatternOrderAnswer(serializers.Serializer[Any]):
    changes = PolicyChangeShown(many=True)
    preview = ChangePreview(allow_null=True)
    applied = PolicyApplied(many=True)


class PolicyFile(serializers.Serializer[Any]):
    yaml = text_field("The file, see `manage.py policies`.")


class PolicyFileRequest(serializers.Serializer[Any]):
    yaml = TextField("The file, see `manage.py policies`.", allow_blank=True)
    prune = FlagField("Unset what the file does not name.")
    dry_run = FlagField("Tell what would be changed, and change nothing.")
    digest = TextField("Of the dry run: refused if there is another difference now.", default="")
    reason = TextField(REASON, default="")


class PolicyFileAnswer(serializers.Serializer[Any]):
    changes = PolicyChangeShown(many=True)
    problems = serializers.DictField(help_text="Object name, or nothing -> what is wrong.")
    left_alone = serializers.ListField(
        child=serializers.CharField(), help_text="Objects that set something and that the file does not name."
    )
    digest = text_field("Names this difference.")
    preview = ChangePreview(allow_null=True, help_text="Of a dry run whose changes would not be refused.")
    applied = PolicyApplied(many=True)


class BulkSelection(serializers.Serializer[Any]):
    virtualhost = TextField("Only in this virtual host.", default="")
    pattern = TextField("Only queues whose name matches.", default="")
    search = TextField("Only queues with this in their name.", default="")
    states = serializers.ListField(
        child=serializers.ChoiceField(choices=list(QUEUE_STATES)), default=list, help_text="Only in these states."
    )
    objects = serializers.ListField(child=TextField(), default=list, help_text="Exactly these queues, by object name.")


class BulkRequest(serializers.Serializer[Any]):
    selection = BulkSelection(help_text="Which queues; {} is all of them.")
    attributes = serializers.DictField(help_text="Policy fields and their new values; null: inherited.")
    reason = TextField(REASON, default="")


class BulkPreviewRequest(serializers.Serializer[Any]):
    selection = BulkSelection(help_text="Which queues; {} is all of them.")
    attributes = serializers.DictField(default=dict, help_text="As for the edit; without them queues are told only.")


class BulkPreview(serializers.Serializer[Any]):
    count = number_field("Queues that are chosen.")
    queues = PolicyQueue(many=True, help_text="The first of them by name, 200 at most.")
    preview = ChangePreview(allow_null=True)


class BulkJob(serializers.Serializer[Any]):
    id = number_field("Number of the job.")
    created = serializers.DateTimeField(help_text="When it was begun.")
    finished = serializers.DateTimeField(allow_null=True, help_text="When its last queue was done.")
    user_name = text_field("On whose behalf.")
    broker = text_field("Slug of the broker.")
    reason = text_field(REASON)
    attributes = serializers.DictField(help_text="What is set; empty for an undo.")
    selection = serializers.DictField(help_text="What was asked for.")
    undo_of = number_field("The job that this one undoes.", allow_null=True)
    undone_by = serializers.ListField(child=serializers.IntegerField(), help_text="Jobs that undo this one.")
    state = text_field("running, interrupted or done.")
    stalled = serializers.BooleanField(help_text="It says it runs, and whoever ran it has gone: resume it.")
    error = text_field("Why it was interrupted.")
    total = number_field("Queues.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="State of queues -> how many.")


class BulkRow(serializers.Serializer[Any]):
    object = object_field()
    state = text_field("waiting, changing, done, unchanged or failed.")
    detail = text_field("Why it failed.")
    wanted = serializers.DictField(help_text="What its fields should be.")
    before = serializers.DictField(allow_null=True, help_text="What they were.")


class BulkSteer(serializers.Serializer[Any]):
    reason = TextField(REASON, default="")


class Reversal(serializers.Serializer[Any]):
    change = PolicyChangeShown()
    preview = ChangePreview(allow_null=True, help_text="Null where the change is not of policy fields alone.")


class RevertRequest(serializers.Serializer[Any]):
    reason = TextField(REASON, default="")
    version = number_field("The object's version that was shown.", default=None, allow_null=True)


class Reverted(serializers.Serializer[Any]):
    version = number_field("The object's version now; null if it is gone.", allow_null=True)
