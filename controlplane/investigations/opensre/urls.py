"""Addresses of OpenSRE's agent server, at the root; ``POST /investigate`` is a plain ASGI route."""

from django.urls import path

from controlplane.investigations.opensre import api

urlpatterns = [
    path("interrupt", api.InterruptView.as_view(), name="opensre-interrupt"),
    path("answer", api.AnswerView.as_view(), name="opensre-answer"),
    path("threads/<str:thread_name>/queue-message", api.QueueMessageView.as_view(), name="opensre-queue-message"),
    path("threads/<str:thread_name>/active", api.ActiveView.as_view(), name="opensre-active"),
    path("health", api.health, name="opensre-health"),
]
