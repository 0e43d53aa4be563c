from django.urls import path

from controlplane.investigations import agent_runs_api, api, feedback_api, webhooks_api

NODE = "orgs/<slug:org>/nodes/<slug:node>"

urlpatterns = [
    path("investigations", api.InvestigationsView.as_view(), name="investigations"),
    path("threads", api.ThreadsView.as_view(), name="threads"),
    path("threads/<uuid:thread_id>", api.ThreadView.as_view(), name="thread"),
    path("threads/<uuid:thread_id>/events", api.ThreadEventsView.as_view(), name="thread-events"),
    path("threads/<uuid:thread_id>/messages", api.ThreadMessagesView.as_view(), name="thread-messages"),
    path("threads/<uuid:thread_id>/interrupt", api.ThreadInterruptView.as_view(), name="thread-interrupt"),
    path("threads/<uuid:thread_id>/answers", api.ThreadAnswersView.as_view(), name="thread-answers"),
    path("threads/<uuid:thread_id>/feedback", feedback_api.ThreadFeedbackView.as_view(), name="thread-feedback"),
    path("internal/feedback", feedback_api.OpenSreFeedbackView.as_view(), name="opensre-feedback"),
    path("team/agent-runs", agent_runs_api.AgentRunsView.as_view(), name="agent-runs"),
    path("team/agent-runs/<uuid:run_id>", agent_runs_api.AgentRunView.as_view(), name="agent-run"),
    path("team/agent-runs/<uuid:run_id>/trace", agent_runs_api.AgentRunTraceView.as_view(), name="agent-run-trace"),
    path(f"{NODE}/webhooks/deliveries", webhooks_api.DeliveriesView.as_view(), name="webhook-deliveries"),
    path(
        f"{NODE}/webhooks/deliveries/<uuid:delivery_id>/resend",
        webhooks_api.DeliveryResendView.as_view(),
        name="webhook-resend",
    ),
    path(f"{NODE}/webhooks/<slug:hook>/test", webhooks_api.WebhookTestView.as_view(), name="webhook-test"),
    path("events/schema", api.EventSchemasView.as_view(), name="event-schemas"),
]
