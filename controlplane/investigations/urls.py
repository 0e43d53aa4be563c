from django.urls import path

from controlplane.investigations import agent_runs_api, api, feedback_api, files_api, retention_api, webhooks_api

NODE = "orgs/<slug:org>/nodes/<slug:node>"

urlpatterns = [
    path("investigations", api.InvestigationsView.as_view(), name="investigations"),
    path("threads", api.ThreadsView.as_view(), name="threads"),
    path("threads/<uuid:thread_id>", api.ThreadView.as_view(), name="thread"),
    path("threads/<uuid:thread_id>/events", api.ThreadEventsView.as_view(), name="thread-events"),
    path("threads/<uuid:thread_id>/messages", api.ThreadMessagesView.as_view(), name="thread-messages"),
    path("threads/<uuid:thread_id>/interrupt", api.ThreadInterruptView.as_view(), name="thread-interrupt"),
    path("threads/<uuid:thread_id>/answers", api.ThreadAnswersView.as_view(), name="thread-answers"),
    path("threads/<uuid:thread_id>/decisions", api.ThreadDecisionsView.as_view(), name="thread-decisions"),
    path("threads/<uuid:thread_id>/runs/<uuid:run_id>/recording", api.RunRecordingView.as_view(), name="run-recording"),
    path("threads/<uuid:thread_id>/feedback", feedback_api.ThreadFeedbackView.as_view(), name="thread-feedback"),
    path("threads/<uuid:thread_id>/runs/<uuid:run_id>/miss", feedback_api.RunMissView.as_view(), name="run-miss"),
    path("internal/feedback", feedback_api.OpenSreFeedbackView.as_view(), name="opensre-feedback"),
    path("internal/agent-runs", agent_runs_api.ReportedRunsView.as_view(), name="reported-runs"),
    path("internal/agent-runs/<str:run_id>", agent_runs_api.ReportedRunView.as_view(), name="reported-run"),
    path(
        "internal/agent-runs/<str:run_id>/thoughts",
        agent_runs_api.ReportedThoughtsView.as_view(),
        name="reported-thoughts",
    ),
    path(
        "internal/agent-runs/<str:run_id>/tool-calls",
        agent_runs_api.ReportedToolCallsView.as_view(),
        name="reported-tool-calls",
    ),
    path("team/agent-runs", agent_runs_api.AgentRunsView.as_view(), name="agent-runs"),
    path("team/agent-runs/<str:run_id>", agent_runs_api.AgentRunView.as_view(), name="agent-run"),
    path("team/agent-runs/<str:run_id>/trace", agent_runs_api.AgentRunTraceView.as_view(), name="agent-run-trace"),
    path(f"{NODE}/webhooks/deliveries", webhooks_api.DeliveriesView.as_view(), name="webhook-deliveries"),
    path(
        f"{NODE}/webhooks/deliveries/<uuid:delivery_id>/resend",
        webhooks_api.DeliveryResendView.as_view(),
        name="webhook-resend",
    ),
    path(f"{NODE}/webhooks/<slug:hook>/test", webhooks_api.WebhookTestView.as_view(), name="webhook-test"),
    path("uploads", files_api.UploadsView.as_view(), name="uploads"),
    path("uploads/<uuid:file_id>", files_api.UploadView.as_view(), name="upload"),
    path("threads/<uuid:thread_id>/files", files_api.ThreadFilesView.as_view(), name="thread-files"),
    path("threads/<uuid:thread_id>/files/<uuid:file_id>", files_api.ThreadFileView.as_view(), name="thread-file"),
    path("orgs/<slug:org>/retention", retention_api.RetentionView.as_view(), name="retention"),
    path("orgs/<slug:org>/retention/holds", retention_api.HoldsView.as_view(), name="holds"),
    path("orgs/<slug:org>/retention/holds/<uuid:thread_id>", retention_api.HoldView.as_view(), name="hold"),
    path("events/schema", api.EventSchemasView.as_view(), name="event-schemas"),
]
