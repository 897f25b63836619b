"""The URLs of the pages."""

from __future__ import annotations

from django.urls import path

import console.intake.path_names  # noqa: F401  (registers the converters of names)
from console.pages.access import access
from console.pages.alerts import alert_rule, alerts
from console.pages.api_docs import api_docs
from console.pages.audit import audit
from console.pages.brokers import brokers
from console.pages.bulk import bulk, bulk_job
from console.pages.clients import client, clients, connection
from console.pages.conditions import conditions
from console.pages.first_steps import first_steps
from console.pages.fleet import fleet
from console.pages.help import help_page
from console.pages.history import history
from console.pages.history_advice import history_advice
from console.pages.history_compare import history_compare
from console.pages.history_incident import history_incident
from console.pages.history_queue import history_queue
from console.pages.history_status import history_status
from console.pages.history_what_if import history_what_if
from console.pages.messages import dead_letters, messages
from console.pages.objects import objects
from console.pages.overview import overview
from console.pages.policies import export, policies, policy, policy_file
from console.pages.preferences import preferences
from console.pages.queue import queue
from console.pages.schedules import schedule, schedules
from console.pages.timeline import timeline
from console.pages.tokens import tokens
from console.pages.why import why

urlpatterns = [
    path("", overview, name="overview"),
    path("fleet/", fleet, name="fleet"),
    path("first-steps/", first_steps, name="first-steps"),
    path("queues/<host:virtualhost>/<queue:name>/", queue, name="queue"),
    path("policies/", policies, name="policies"),
    path("policies/scope/", policy, name="policy"),
    path("policies/file/", policy_file, name="policy-file"),
    path("policies/bulk/", bulk, name="bulk"),
    path("policies/bulk/<int:number>/", bulk_job, name="bulk-job"),
    path("policies/export.yaml", export, name="policies-export"),
    path("timeline/", timeline, name="timeline"),
    path("why/", why, name="why"),
    path("clients/", clients, name="clients"),
    path("clients/connection/", connection, name="connection"),
    path("clients/client/", client, name="client"),
    path("conditions/", conditions, name="conditions"),
    path("messages/", messages, name="messages"),
    path("dead-letters/", dead_letters, name="dead-letters"),
    path("help/", help_page, name="help"),
    path("help/<slug:slug>/", help_page, name="help-document"),
    path("history/", history, name="history"),
    path("history/compare/", history_compare, name="history-compare"),
    path("history/incident/", history_incident, name="history-incident"),
    path("history/advice/", history_advice, name="history-advice"),
    path("history/status/", history_status, name="history-status"),
    path("history/what-if/<host:virtualhost>/<queue:name>/", history_what_if, name="history-what-if"),
    path("history/queues/<host:virtualhost>/<queue:name>/", history_queue, name="history-queue"),
    path("alerts/", alerts, name="alerts"),
    path("alerts/rules/new/", alert_rule, name="alert-rule-new"),
    path("alerts/rules/<int:number>/", alert_rule, name="alert-rule"),
    path("schedules/", schedules, name="schedules"),
    path("schedules/new/", schedule, name="schedule-new"),
    path("schedules/<int:number>/", schedule, name="schedule"),
    path("objects/", objects, name="objects"),
    path("audit/", audit, name="audit"),
    path("access/", access, name="access"),
    path("brokers/", brokers, name="brokers"),
    path("tokens/", tokens, name="tokens"),
    path("preferences/", preferences, name="preferences"),
    path("api/", api_docs, name="api-docs"),
]
