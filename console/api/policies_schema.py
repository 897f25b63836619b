"""Serializers of the requests and responses of policies, bulk edits and reversals."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from brokers.model import POLICY, QUEUE_STATES, TYPES
from console.api.fields import FlagField, ObjectNameField, TextField
from console.api.schema import OBJECT, REASON, VERSION, number_field, object_field, shape_of, text_field
from console.bulk.relative import LEAST, MOST, RELATIVE_FIELDS

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
    version=number_field("As for the change itself; ignored here.", required=False),
    reason=TextField("As for the change itself; ignored here.", default=""),
)
Effective = shape_of("Effective", [a for a in TYPES["Queue"].attributes if a.name.startswith("effective_")])


class PolicyChecked(serializers.Serializer[Any]):
    effective = Effective()


class PolicyScope(serializers.Serializer[Any]):
    object = object_field()
    version = number_field("Version of the object.")
    queues = number_field("Queues in this scope; of a pattern, the queues whose best match it is.", required=False)
    set = serializers.DictField(help_text="Policy fields that are set here, and the priority if it is not 0.")


class PolicyPattern(PolicyScope):
    pattern = text_field("Pattern of queue names.")
    priority = number_field("The higher priority wins between patterns that match equally well.")
    rank = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Precedence: words in the literal prefix, and minus the number of wildcards.",
    )


class PolicyNamed(PolicyScope):
    name = text_field("Name.")


class PolicyHost(PolicyNamed):
    patterns = PolicyPattern(many=True, help_text="In matching order.")
    exchanges = PolicyNamed(many=True)


class PolicyQueue(PolicyNamed):
    virtualhost = text_field("Virtual host.")


class PolicyQueuePage(serializers.Serializer[Any]):
    count = number_field("Queues that set a policy field themselves.")
    page = number_field("Number of this page, from 1.")
    page_size = number_field("Rows per page.")
    results = PolicyQueue(many=True)


class PolicyScopes(serializers.Serializer[Any]):
    broker = PolicyScope()
    virtualhosts = PolicyHost(many=True)
    queues = PolicyQueuePage()


class PolicyChangeAsked(serializers.Serializer[Any]):
    object = ObjectNameField(OBJECT)
    action = serializers.ChoiceField(
        ["update", "create", "delete"], default="update", help_text="create and delete are for objects of type Policy."
    )
    attributes = serializers.DictField(
        default=dict, help_text="Policy fields, null for inherited; of a Policy also its priority."
    )
    version = number_field(VERSION, default=None, allow_null=True)


class PolicyChanges(serializers.Serializer[Any]):
    changes = PolicyChangeAsked(many=True, allow_empty=False)
    largest = number_field("Number of queues to list, those with the largest impact first.", default=20)


_preview = TYPES["Broker"].operation("preview-change")
assert _preview is not None
ChangePreview = extend_schema_serializer(deprecate_fields=["released", "held", "freed"])(
    shape_of(
        "ChangePreview",
        _preview.returns,
        underfull=number_field("Queues that are overfull now and no longer would be.", allow_null=True),
        blocked=number_field("Running producers that would be blocked.", allow_null=True),
        unblocked=number_field("Blocked producers that would run.", allow_null=True),
        unavailable=text_field("Why there is no preview: this broker has none. All numbers are null.", required=False),
    )
)


class PolicyChangeShown(PolicyChangeAsked):
    was = serializers.DictField(help_text="Current values of the attributes.")


class PolicyApplied(serializers.Serializer[Any]):
    object = object_field()
    action = text_field("update, create or delete.")
    outcome = text_field("done, refused, failed or unknown.")
    version = number_field("New version of the object; null if unknown or deleted.", allow_null=True)
    detail = text_field("Explanation, unless the outcome is done.")


class PatternOrder(serializers.Serializer[Any]):
    virtualhost = TextField("Name of the virtual host.")
    patterns = serializers.ListField(child=TextField(), help_text="All patterns of the virtual host, best match first.")
    reason = TextField(REASON, default="")
    dry_run = FlagField("Return the changes and their impact; change nothing.")


class PatternOrderAnswer(serializers.Serializer[Any]):
    changes = PolicyChangeShown(many=True)
    preview = ChangePreview(allow_null=True)
    applied = PolicyApplied(many=True)


class PolicyFile(serializers.Serializer[Any]):
    yaml = text_field("Policy file, as of `headgate policies`.")


class PolicyFileRequest(serializers.Serializer[Any]):
    yaml = TextField("Policy file, as of `headgate policies`.", allow_blank=True)
    prune = FlagField("Remove settings that are not in the file.")
    dry_run = FlagField("Return the changes and their impact; change nothing.")
    digest = TextField("Digest of the dry run: refused if the changes would now be different.", default="")
    reason = TextField(REASON, default="")


class PolicyFileAnswer(serializers.Serializer[Any]):
    changes = PolicyChangeShown(many=True)
    problems = serializers.DictField(help_text="Errors by object name; by an empty name, errors of the file.")
    left_alone = serializers.ListField(
        child=serializers.CharField(), help_text="Objects with settings that are not in the file."
    )
    digest = text_field("Identifies this list of changes.")
    preview = ChangePreview(allow_null=True, help_text="Impact; only of a dry run whose changes would be accepted.")
    applied = PolicyApplied(many=True)


class BulkSelection(serializers.Serializer[Any]):
    virtualhost = TextField("Queues of this virtual host.", default="")
    pattern = TextField("Queues with a matching name.", default="")
    search = TextField("Queues with this text in their name.", default="")
    states = serializers.ListField(
        child=serializers.ChoiceField(choices=list(QUEUE_STATES)),
        default=list,
        help_text="Queues in one of these states.",
    )
    objects = serializers.ListField(child=TextField(), default=list, help_text="These queues, by object name.")


def _factors() -> serializers.DictField:
    return serializers.DictField(
        child=serializers.FloatField(),
        default=dict,
        help_text=f"Instead of a value: a factor of each queue's effective value, for {' and '.join(RELATIVE_FIELDS)}:"
        f" {LEAST:g} to {MOST:g}."
        " Queues without a limit stay as they are.",
    )


class BulkRequest(serializers.Serializer[Any]):
    selection = BulkSelection(help_text="Queues to edit; {}: all.")
    attributes = serializers.DictField(default=dict, help_text="Policy fields and their new values; null: inherited.")
    factors = _factors()
    digest = TextField(
        "That of the preview: the edit is refused with 409 if other queues are selected by now, or would get other"
        " values. Empty: it is not compared.",
        default="",
    )
    reason = TextField(REASON, default="")


class BulkPreviewRequest(serializers.Serializer[Any]):
    selection = BulkSelection(help_text="Queues to edit; {}: all.")
    attributes = serializers.DictField(default=dict, help_text="As for the edit; empty: only list the queues.")
    factors = _factors()


class BulkPreview(serializers.Serializer[Any]):
    count = number_field("Number of matching queues.")
    queues = PolicyQueue(many=True, help_text="The first 200 of them by name.")
    preview = ChangePreview(allow_null=True)
    without = number_field("Queues that stay as they are, since they have no limit to multiply.")
    digest = text_field("Of the selected queues and their new values: send it with the edit. Empty: no fields.")


class BulkUndoPreview(serializers.Serializer[Any]):
    count = number_field("Number of queues whose previous values would be restored.")
    preview = ChangePreview(allow_null=True)
    changed_since = number_field("Queues that stay as they are: others have changed or deleted them since the edit.")


class BulkJob(serializers.Serializer[Any]):
    id = number_field("Number of the job.")
    created = serializers.DateTimeField(help_text="Start time.")
    finished = serializers.DateTimeField(allow_null=True, help_text="End time.")
    user_name = text_field("User who started it.")
    broker = text_field("Slug of the broker.")
    reason = text_field(REASON)
    attributes = serializers.DictField(help_text="Policy fields to set; empty for an undo.")
    selection = serializers.DictField(help_text="Selection of the request.")
    undo_of = number_field("Number of the job that this job undoes.", allow_null=True)
    undone_by = serializers.ListField(
        child=serializers.IntegerField(), help_text="Numbers of the jobs that undo this job."
    )
    undoable = number_field("Queues that an undo would restore, unless others have changed them; 0 while one runs.")
    state = text_field("running, interrupted or done.")
    stalled = serializers.BooleanField(help_text="Its worker has stopped while the state is running: resume it.")
    error = text_field("Why it was interrupted.")
    total = number_field("Number of queues.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Number of queues by state.")


class BulkRow(serializers.Serializer[Any]):
    object = object_field()
    state = text_field("waiting, changing, done, unchanged or failed.")
    detail = text_field("Why it failed.")
    wanted = serializers.DictField(help_text="Values to set.")
    before = serializers.DictField(allow_null=True, help_text="Previous values.")


class BulkSteer(serializers.Serializer[Any]):
    reason = TextField(REASON, default="")


class Reversal(serializers.Serializer[Any]):
    change = PolicyChangeShown()
    preview = ChangePreview(allow_null=True, help_text="Null if the change is not of policy fields only.")


class RevertRequest(serializers.Serializer[Any]):
    reason = TextField(REASON, default="")
    version = number_field("Version of the object that you read.", default=None, allow_null=True)


class Reverted(serializers.Serializer[Any]):
    version = number_field("New version of the object; null if it is deleted.", allow_null=True)
