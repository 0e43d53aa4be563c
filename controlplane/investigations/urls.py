from django.urls import path

from controlplane.investigations import api

urlpatterns = [
    path("investigations", api.InvestigationsView.as_view(), name="investigations"),
    path("threads", api.ThreadsView.as_view(), name="threads"),
    path("threads/<uuid:thread_id>", api.ThreadView.as_view(), name="thread"),
    path("threads/<uuid:thread_id>/events", api.ThreadEventsView.as_view(), name="thread-events"),
    path("threads/<uuid:thread_id>/messages", api.ThreadMessagesView.as_view(), name="thread-messages"),
    path("threads/<uuid:thread_id>/interrupt", api.ThreadInterruptView.as_view(), name="thread-interrupt"),
    path("threads/<uuid:thread_id>/answers", api.ThreadAnswersView.as_view(), name="thread-answers"),
    path("threads/<uuid:thread_id>/decisions", api.ThreadDecisionsView.as_view(), name="thread-decisions"),
    path("events/schema", api.EventSchemasView.as_view(), name="event-schemas"),
]
