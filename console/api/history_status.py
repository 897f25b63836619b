"""How the pipeline is, and running it at once."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import schema
from console.api.fields import TextField
from console.api.history_reading import history
from console.api.reading import PersonalView
from console.history.pipeline import diagnosis, run_now
from console.history.pipeline.status import status as status_of
from console.permissions.rights import Role


def _text(says: str, *, null: bool = False) -> serializers.CharField:
    return serializers.CharField(help_text=says, allow_null=null, allow_blank=True)


class HistoryFinding(serializers.Serializer[Any]):
    kind = _text(
        "empty, begins, never-run, failing, late, backlog, unreadable, not-followed, chore, or broken (not readable)."
    )
    severity = _text("`trouble`: somebody must look; `note`: it explains what is seen.")
    text = _text("A sentence for people.")
    next = _text("What to do about it.")


class HistoryRun(serializers.Serializer[Any]):
    id = schema.number_field("Its number.")
    work = _text("run: the pipeline; compact, retain, advise: a maintenance job.")
    state = _text("running, done, failed, or interrupted: ended from outside, so that the next one does its work.")
    holder = _text("Host and process.")
    started = schema.number_field("When it began.")
    finished = schema.number_field("When it ended.", allow_null=True)
    step = _text("The step that goes on, or in which it failed.")
    files = schema.number_field("Landing files that it took.")
    rows = serializers.DictField(child=serializers.IntegerField(), help_text="Rows that landed, by kind.")
    seconds = serializers.DictField(child=serializers.FloatField(), help_text="By step.")
    newest = schema.number_field("The newest moment that its rows tell of.", allow_null=True)
    lag_ms = schema.number_field("How long after that moment it could be read.", allow_null=True)
    error = _text("Why it failed; empty if it did not.")


class HistoryGap(serializers.Serializer[Any]):
    until = schema.number_field("Its end.")
    reason = _text("What is missing, and why.")


HistoryGap._declared_fields["from"] = schema.number_field("Its beginning.")


class HistoryFollowed(serializers.Serializer[Any]):
    broker = _text("Its name in the history.")
    title = _text("Its name for people.")
    configured = serializers.BooleanField(help_text="Whether this console is connected to it.")
    following = serializers.BooleanField(
        allow_null=True, help_text="Whether a recorder follows it now; null: not for this console to know."
    )
    last_sign = schema.number_field("When a recorder last published something of it.", allow_null=True)
    readable_until = schema.number_field("Up to when its history can be read.", allow_null=True)
    gap = HistoryGap(allow_null=True, help_text="The newest stretch of the last week that is known to be missing.")


class HistoryJobRequest(serializers.Serializer[Any]):
    state = _text("queued (no worker has it yet), waiting (for a run to end, or running), failed or done.")
    asked = schema.number_field("When it was asked for.")
    asked_by = _text("By whom; empty: by the schedule.")
    finished = schema.number_field("When it ended; with `failed`, null while it is tried again.", allow_null=True)
    error = _text("Why it failed.")


class HistoryChore(serializers.Serializer[Any]):
    work = _text("compact, retain or advise.")
    next = schema.number_field("When a worker will do it.", allow_null=True)
    done = schema.number_field("When it last went well.", allow_null=True)
    last = HistoryRun(allow_null=True, help_text="The newest that has ended.")
    request = HistoryJobRequest(allow_null=True, help_text="The newest that was asked for.")


class HistoryTable(serializers.Serializer[Any]):
    name = _text("Its name.")
    files = schema.number_field("Files that it lies in.")
    rows = schema.number_field("Rows.")
    bytes = schema.number_field("Size of the files, packed.")
    first = _text("The first day of its oldest partition.", null=True)
    last = _text("The first day of its newest partition.", null=True)
    keep_days = schema.number_field("Rows older than that are dropped; null: never.", allow_null=True)


class HistoryStatus(serializers.Serializer[Any]):
    now = schema.number_field("The server's time.")
    condition = _text("In one word: trouble, empty, running or fine.")
    findings = HistoryFinding(many=True, help_text="What is wrong or needs explaining, the most important first.")
    running = HistoryRun(allow_null=True, help_text="What runs now.")
    runs = HistoryRun(many=True, help_text="Those that have ended, newest first.")
    failures = HistoryRun(many=True, help_text="The newest that failed or were interrupted.")
    files = schema.number_field("Landing files that wait.")
    oldest = schema.number_field("When the oldest of them landed.", allow_null=True)
    unreadable = serializers.DictField(
        child=serializers.CharField(), help_text="Landing files that cannot be read, each with its reason."
    )
    brokers = HistoryFollowed(many=True)
    chores = HistoryChore(many=True)
    tables = HistoryTable(many=True)


class HistoryRunRequest(serializers.Serializer[Any]):
    work = serializers.ChoiceField(choices=list(run_now.HISTORY_WORKS), help_text="What to do at once.")
    reason = TextField("Why; it goes into the audit trail.", default="")


class HistoryRunAnswer(serializers.Serializer[Any]):
    work = _text("What was handed to the worker.")


class HistoryStatusView(PersonalView):
    @extend_schema(
        responses={200: HistoryStatus, 403: schema.READ_REFUSALS[403]},
        summary="How the history's pipeline is",
        description="What runs, ran, waits and failed, and what to do about it. Always answers: what cannot be found"
        " out is a finding. Who does not see every broker is not told why runs failed and which files cannot be read,"
        " which names brokers.",
    )
    def get(self, request: Request) -> Response:
        brokers = [broker for broker in settings.HEADGATE_BROKERS if self.rights.sees(broker["slug"])]
        told = status_of(history(request), brokers, settings.CELERY_BEAT_SCHEDULE)
        if not self.rights.may_everywhere(Role.VIEWER):
            told.leave_reasons_out()
        found = diagnosis.findings(told)
        return Response(
            {
                "now": told.now,
                "condition": diagnosis.condition(told, found),
                "findings": [diagnosis.as_facts(finding) for finding in found],
                "running": told.running,
                "runs": told.runs,
                "failures": told.failures,
                "files": told.files,
                "oldest": told.oldest,
                "unreadable": told.unreadable,
                "brokers": told.brokers,
                "chores": told.maintenance,
                "tables": told.tables,
            }
        )


class HistoryRunView(PersonalView):
    @extend_schema(
        request=HistoryRunRequest,
        responses={202: HistoryRunAnswer, **schema.WRITE_REFUSALS},
        summary="Run the pipeline or a maintenance job now",
        description="Handed to a worker, and audited. The status tells when it runs and what came of it. A job"
        " waits while another run goes on, and begins before the pipeline runs again.",
    )
    def post(self, request: Request) -> Response:
        work = self.body["work"]
        run_now.run_history(self.actor, work, self.body["reason"])
        return Response({"work": work}, status=status.HTTP_202_ACCEPTED)
