"""URLs of the API under /api/."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView

import console.intake.path_names  # noqa: F401  (registers the converters of names)
from console.api.audit import AuditFileView, AuditView, RevertView
from console.api.broker_file import BrokerFileView
from console.api.brokers import (
    BrokerDetailView,
    BrokerKindsView,
    BrokersView,
    BrokerTestView,
    StoredBrokerTestView,
    TypesView,
)
from console.api.bulk import (
    BulkEditsView,
    BulkEditView,
    BulkInterruptView,
    BulkPreviewView,
    BulkResumeView,
    BulkRowsView,
    BulkUndoView,
)
from console.api.conditions import ConditionsView
from console.api.events import EventsView
from console.api.fleet import FleetConditionsView, FleetEventsView, FleetQueueGroupsView, FleetQueuesView, FleetView
from console.api.history import (
    EpisodesFileView,
    EpisodesView,
    HeatView,
    HistoryCatalogView,
    HistoryEventsFileView,
    HistoryEventsView,
    HistoryQueuesView,
    SeriesView,
    TopView,
    TotalsView,
)
from console.api.history_status import HistoryRunView, HistoryStatusView
from console.api.history_what_if import AdviceView, WhatIfView
from console.api.me import MeView
from console.api.message_acts import (
    CopyMessagesView,
    DeleteMessagesView,
    MessageJobInterruptView,
    MessageJobResumeView,
    MessageJobsView,
    MessageJobView,
    MoveMessagesView,
    PublishMessageView,
    RetryMessagesView,
)
from console.api.messages import DeadLettersView, MessageBodyView, MessageSummaryView, MessagesView, MessageView
from console.api.objects import ObjectsView, ObjectView, OperationView
from console.api.policies import PatternOrderView, PoliciesView, PolicyPreviewView
from console.api.policy_file import PolicyFileView
from console.api.preferences import PreferencesView
from console.api.queues import ProducersView, QueueCheckView, QueueGroupsView, QueuesView, QueueView
from console.api.selections import SelectionsView, SelectionView
from console.api.stops import StartProducersView, StopPreviewView, StopProducersView, StopProgressView
from console.api.timeline import TimelineDownloadView, TimelineView
from console.api.why import WhyView

_v1: list[URLPattern | URLResolver] = [
    path("me/", MeView.as_view()),
    path("preferences/", PreferencesView.as_view()),
    path("brokers/", BrokersView.as_view()),
    path("brokers/file/", BrokerFileView.as_view()),
    path("brokers/kinds/", BrokerKindsView.as_view()),
    path("brokers/test/", BrokerTestView.as_view()),
    path("brokers/<slug:slug>/test/", StoredBrokerTestView.as_view()),
    path("brokers/<slug:slug>/", BrokerDetailView.as_view()),
    path("brokers/<slug:slug>/types/", TypesView.as_view()),
    path("brokers/<slug:slug>/objects/", ObjectsView.as_view()),
    path("brokers/<slug:slug>/objects/<object:name>/operations/<slug:operation>/", OperationView.as_view()),
    path("brokers/<slug:slug>/objects/<object:name>/", ObjectView.as_view()),
    path("queues/", QueuesView.as_view()),
    path("queues/groups/", QueueGroupsView.as_view()),
    path("queues/<host:virtualhost>/<queue:name>/check/", QueueCheckView.as_view()),
    path("queues/<host:virtualhost>/<queue:name>/", QueueView.as_view()),
    path("messages/", MessagesView.as_view()),
    path("messages/summary/", MessageSummaryView.as_view()),
    path("messages/move/", MoveMessagesView.as_view()),
    path("messages/copy/", CopyMessagesView.as_view()),
    path("messages/retry/", RetryMessagesView.as_view()),
    path("messages/delete/", DeleteMessagesView.as_view()),
    path("messages/publish/", PublishMessageView.as_view()),
    path("messages/<str:identifier>/", MessageView.as_view()),
    path("messages/<str:identifier>/body/", MessageBodyView.as_view()),
    path("message-jobs/", MessageJobsView.as_view()),
    path("message-jobs/<int:number>/", MessageJobView.as_view()),
    path("message-jobs/<int:number>/interrupt/", MessageJobInterruptView.as_view()),
    path("message-jobs/<int:number>/resume/", MessageJobResumeView.as_view()),
    path("dead-letters/", DeadLettersView.as_view()),
    path("producers/", ProducersView.as_view()),
    path("conditions/", ConditionsView.as_view()),
    path("fleet/", FleetView.as_view()),
    path("fleet/queues/", FleetQueuesView.as_view()),
    path("fleet/queues/groups/", FleetQueueGroupsView.as_view()),
    path("fleet/conditions/", FleetConditionsView.as_view()),
    path("fleet/events/", FleetEventsView.as_view()),
    path("timeline/", TimelineView.as_view()),
    path("timeline/download/", TimelineDownloadView.as_view(), name="timeline-download"),
    path("why/", WhyView.as_view()),
    path("events/", EventsView.as_view()),
    path("stop-producers/", StopProducersView.as_view()),
    path("stop-producers/preview/", StopPreviewView.as_view()),
    path("stop-producers/progress/", StopProgressView.as_view()),
    path("start-producers/", StartProducersView.as_view()),
    path("selections/", SelectionsView.as_view()),
    path("selections/<int:number>/", SelectionView.as_view()),
    path("policies/", PoliciesView.as_view()),
    path("policies/preview/", PolicyPreviewView.as_view()),
    path("policies/file/", PolicyFileView.as_view()),
    path("policies/bulk/", BulkEditsView.as_view()),
    path("policies/bulk/preview/", BulkPreviewView.as_view()),
    path("policies/bulk/<int:number>/", BulkEditView.as_view()),
    path("policies/bulk/<int:number>/rows/", BulkRowsView.as_view()),
    path("policies/bulk/<int:number>/resume/", BulkResumeView.as_view()),
    path("policies/bulk/<int:number>/interrupt/", BulkInterruptView.as_view()),
    path("policies/bulk/<int:number>/undo/", BulkUndoView.as_view()),
    path("policies/order/", PatternOrderView.as_view()),
    path("audit/", AuditView.as_view()),
    path("audit/file/", AuditFileView.as_view()),
    path("audit/<int:number>/revert/", RevertView.as_view()),
    path("", include("console.api.alerts_urls")),
    path("history/", HistoryCatalogView.as_view()),
    path("history/queues/", HistoryQueuesView.as_view()),
    path("history/series/", SeriesView.as_view()),
    path("history/top/", TopView.as_view()),
    path("history/heat/", HeatView.as_view()),
    path("history/totals/", TotalsView.as_view()),
    path("history/episodes/", EpisodesView.as_view()),
    path("history/episodes/file/", EpisodesFileView.as_view()),
    path("history/what-if/", WhatIfView.as_view()),
    path("history/advice/", AdviceView.as_view()),
    path("history/events/", HistoryEventsView.as_view()),
    path("history/status/", HistoryStatusView.as_view()),
    path("history/run/", HistoryRunView.as_view()),
    path("history/events/file/", HistoryEventsFileView.as_view()),
]

urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("v1/", include(_v1)),
]
