"""URLs of alerts and schedules under /api/v1/."""

from __future__ import annotations

from django.urls import path

from console.api import alert_previews, alerts, console_url, schedules

urlpatterns = [
    path("alerts/", alerts.AlertsView.as_view()),
    path("alerts/kinds/", alerts.KindsView.as_view()),
    path("alerts/templates/", alert_previews.TemplatesView.as_view()),
    path("alerts/rules/", alerts.RulesView.as_view()),
    path("alerts/rules/preview/", alert_previews.RulePreviewView.as_view()),
    path("alerts/rules/<int:number>/", alerts.RuleView.as_view()),
    path("alerts/receivers/", alerts.ReceiversView.as_view()),
    path("alerts/receivers/<int:number>/", alerts.ReceiverView.as_view()),
    path("alerts/receivers/<int:number>/test/", alerts.ReceiverTestView.as_view()),
    path("alerts/receivers/<int:number>/secret/", alerts.ReceiverSecretView.as_view()),
    path("alerts/silences/", alerts.SilencesView.as_view()),
    path("alerts/silences/<int:number>/", alerts.SilenceView.as_view()),
    path("alerts/networks/", alerts.NetworksView.as_view()),
    path("alerts/networks/<int:number>/", alerts.NetworkView.as_view()),
    path("alerts/console-url/", console_url.ConsoleUrlView.as_view()),
    path("alerts/log/", alerts.LogView.as_view()),
    path("alerts/deliveries/<int:number>/", alerts.DeliveryView.as_view()),
    path("alerts/deliveries/<int:number>/again/", alerts.RetryDeliveryView.as_view()),
    path("schedules/", schedules.SchedulesView.as_view()),
    path("schedules/preview/", schedules.SchedulePreviewView.as_view()),
    path("schedules/<int:number>/", schedules.ScheduleView.as_view()),
    path("schedules/<int:number>/pause/", schedules.SchedulePauseView.as_view()),
    path("schedules/<int:number>/go-on/", schedules.ScheduleResumeView.as_view()),
    path("schedules/runs/", schedules.RunsView.as_view()),
    path("schedules/runs/<int:number>/end/", schedules.RunEndView.as_view()),
]
