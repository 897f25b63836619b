"""Status of the history pipeline, and its start on request."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import schema
from console.api.base_views import PersonalView
from console.api.fields import TextField
from console.api.history_reading import history
from console.brokers.configured import configured
from console.history.pipeline import diagnosis, run_now
from console.history.pipeline.status import status as status_of
from console.permissions.rights import Role


def _text(description: str, *, null: bool = False) -> serializers.CharField:
    return serializers.CharField(help_text=description, allow_null=null, allow_blank=True)


class HistoryFinding(serializers.Serializer[Any]):
    kind = _text(
        "empty, never-run, failing, late, backlog, unreadable, not-followed, chore, retention-limited (the clock is far"
        " ahead of the last retention), or broken (not readable)."
    )
    severity = _text("`trouble`: action required; `note`: information.")
    text = _text("The problem as a sentence.")
    next = _text("The remedy.")


class HistoryRun(serializers.Serializer[Any]):
    id = schema.number_field("Its number.")
    work = _text("run: the pipeline; compact, retain, advise: a maintenance job.")
    broker = _text("Whose files it processes; empty: those of all brokers.")
    state = _text("running, done, failed, or interrupted: terminated from outside; the next run does its work.")
    holder = _text("Host and process.")
    started = schema.number_field("Start.")
    finished = schema.number_field("End.", allow_null=True)
    step = _text("The current step, or the one that failed.")
    files = schema.number_field("Number of processed landing files.")
    rows = serializers.DictField(child=serializers.IntegerField(), help_text="Ingested rows by kind.")
    seconds = serializers.DictField(child=serializers.FloatField(), help_text="Duration in seconds by step.")
    newest = schema.number_field("Time of its newest row.", allow_null=True)
    lag_ms = schema.number_field("Time from its newest row until that row could be queried.", allow_null=True)
    error = _text("Error message; empty if the run did not fail.")


class HistoryGap(serializers.Serializer[Any]):
    until = schema.number_field("Its end.")
    reason = _text("Cause of the gap; empty if no recorder was connected to the broker.")


HistoryGap._declared_fields["from"] = schema.number_field("Its start.")


class BrokerRecording(serializers.Serializer[Any]):
    broker = _text("Its name in the history.")
    title = _text("Its display name.")
    configured = serializers.BooleanField(help_text="Whether this console is connected to it.")
    following = serializers.BooleanField(
        allow_null=True,
        help_text="Whether a recorder records it now; null: unknown, since the console is not connected to it.",
    )
    last_sign = schema.number_field("Time of the last data that a recorder published.", allow_null=True)
    readable_until = schema.number_field("End of the data that can be queried.", allow_null=True)
    gap = HistoryGap(allow_null=True, help_text="The most recent gap in the recording in the last 7 days.")


@extend_schema_serializer(deprecate_fields=["asked", "asked_by"])
class HistoryJobRequest(serializers.Serializer[Any]):
    work = _text("run, compact, retain or advise.")
    state = _text("queued (it starts after the current run), running, failed or done.")
    requested = schema.number_field("Time of the request.")
    requested_by = _text("User who requested it; empty: the schedule.")
    asked = schema.number_field("Deprecated: use `requested`.")
    asked_by = _text("Deprecated: use `requested_by`.")
    attempts = schema.number_field("Number of attempts that have started.")
    finished = schema.number_field("End; null while a failed job is being retried.", allow_null=True)
    error = _text("Error message.")


class MaintenanceJob(serializers.Serializer[Any]):
    work = _text("compact, retain or advise.")
    next = schema.number_field("Next scheduled run.", allow_null=True)
    done = schema.number_field("Time of the last successful run.", allow_null=True)
    last = HistoryRun(allow_null=True, help_text="The most recent finished run.")
    request = HistoryJobRequest(allow_null=True, help_text="The most recent request.")


class HistoryNextRun(serializers.Serializer[Any]):
    broker = _text("Whose files.")
    files = schema.number_field("Number of its waiting landing files.")
    oldest = schema.number_field("Time at which the first of them landed.")
    at = schema.number_field("When a run is due if no other file lands; in the past: now.")
    reason = _text(
        "hour: the hour of the recorded data has closed then; rows: about a million rows wait; late: imported or other"
        " data of closed hours waits; wait: the longest wait is over."
    )


class HistoryTable(serializers.Serializer[Any]):
    name = _text("Its name.")
    files = schema.number_field("Number of files.")
    rows = schema.number_field("Number of rows.")
    bytes = schema.number_field("Compressed size of the files.")
    first = _text("First day of its oldest partition.", null=True)
    last = _text("First day of its newest partition.", null=True)
    keep_days = schema.number_field("Retention in days; null: unlimited.", allow_null=True)


@extend_schema_serializer(deprecate_fields=["chores"])
class HistoryStatus(serializers.Serializer[Any]):
    now = schema.number_field("The server's time.")
    condition = _text("trouble, empty, running or fine.")
    findings = HistoryFinding(many=True, help_text="Problems and notes, the most important first.")
    running = HistoryRun(allow_null=True, help_text="The current run.")
    runs = HistoryRun(many=True, help_text="Finished runs, newest first.")
    failures = HistoryRun(many=True, help_text="The most recent failed or interrupted runs.")
    files = schema.number_field("Backlog: number of landing files not processed yet.")
    oldest = schema.number_field("Time at which the oldest of them landed.", allow_null=True)
    next_runs = HistoryNextRun(
        many=True, help_text="When the backlog of each broker will be processed, the earliest first."
    )
    requests = HistoryJobRequest(many=True, help_text="Requests that are queued or running, the oldest first.")
    process = serializers.BooleanField(help_text="Whether a `headgate history` process waits for work, on any host.")
    session = serializers.BooleanField(
        help_text="Whether Spark is running. It starts when there is work, and ends after five idle minutes."
    )
    unreadable = serializers.DictField(
        child=serializers.CharField(), help_text="Unreadable landing files with the reason."
    )
    brokers = BrokerRecording(many=True)
    maintenance = MaintenanceJob(many=True, help_text="Scheduled maintenance jobs.")
    chores = MaintenanceJob(many=True, help_text="Deprecated: use `maintenance`.")
    tables = HistoryTable(many=True)


class HistoryRunRequest(serializers.Serializer[Any]):
    work = serializers.ChoiceField(choices=list(run_now.HISTORY_WORKS), help_text="The job to run.")
    reason = TextField("Reason, for the audit trail.", default="")


class HistoryRunAnswer(serializers.Serializer[Any]):
    work = _text("The job that was queued.")


class HistoryStatusView(PersonalView):
    @extend_schema(
        responses={200: HistoryStatus, 403: schema.READ_REFUSALS[403]},
        summary="Get pipeline status",
        description="Current and past runs, backlog, failures and remedies. Errors in reading the status are"
        " findings, too."
        " Users without access to all brokers get no error messages and no names of unreadable files, since these may"
        " name other brokers.",
    )
    def get(self, request: Request) -> Response:
        brokers = [broker for broker in configured() if self.rights.can_see(broker["slug"])]
        state = status_of(history(request), brokers, settings.CELERY_BEAT_SCHEDULE)
        if not self.rights.allows_everywhere(Role.VIEWER):
            state.redact()
        found = diagnosis.findings(state)
        return Response(
            {
                "now": state.now,
                "condition": diagnosis.condition(state, found),
                "findings": [diagnosis.as_facts(finding) for finding in found],
                "running": state.running,
                "runs": state.runs,
                "failures": state.failures,
                "files": state.files,
                "oldest": state.oldest,
                "next_runs": state.next_runs,
                "requests": state.requests,
                "process": state.is_process_alive,
                "session": state.is_session_up,
                "unreadable": state.unreadable,
                "brokers": state.brokers,
                "maintenance": state.maintenance,
                "chores": state.maintenance,
                "tables": state.tables,
            }
        )


class HistoryRunView(PersonalView):
    @extend_schema(
        request=HistoryRunRequest,
        responses={202: HistoryRunAnswer, **schema.WRITE_REFUSALS},
        summary="Run the pipeline or a maintenance job now",
        description="Queues the work and audits the request; the pipeline status shows its progress and result. It"
        " starts after the run or job in progress, and is never dropped. Work that is queued already is not queued"
        " again.",
    )
    def post(self, request: Request) -> Response:
        work = self.body["work"]
        run_now.run_history(self.actor, work, self.body["reason"])
        return Response({"work": work}, status=status.HTTP_202_ACCEPTED)
