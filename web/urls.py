"""Pages for people: below ``/app``, and ``/login``."""

from django.urls import path
from django.views.generic import RedirectView

from web.views import (
    config,
    config_credentials,
    config_edit,
    config_history,
    config_policies,
    docs,
    evaluations,
    investigations,
    reviews,
    runs,
    security,
    sign_in,
    threads,
)

app_name = "web"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="web:home"), name="root"),
    path("login/", sign_in.sign_in, name="login"),
    path("login/code", sign_in.sign_in_code, name="login_code"),
    path("login/link/<str:secret>", sign_in.sign_in_link, name="login_link"),
    path("logout/", sign_in.sign_out, name="logout"),
    path("app/", investigations.home, name="home"),
    path("app/new", investigations.investigation_new, name="investigation_new"),
    path("app/threads/<uuid:thread_id>", threads.thread, name="thread"),
    path("app/threads/<uuid:thread_id>/messages", threads.message, name="thread_message"),
    path("app/threads/<uuid:thread_id>/stop", threads.stop, name="thread_stop"),
    path("app/threads/<uuid:thread_id>/answers", threads.answer, name="thread_answer"),
    path("app/threads/<uuid:thread_id>/question", threads.question, name="thread_question"),
    path("app/threads/<uuid:thread_id>/runs/<uuid:run_id>/report", threads.run_report, name="run_report"),
    path("app/threads/<uuid:thread_id>/runs/<uuid:run_id>/report.md", threads.report_file, name="report_file"),
    path("app/runs", runs.runs, name="runs"),
    path("app/config", config.config, name="config"),
    path("app/config/<slug:slug>", config.config_node, name="config_node"),
    path("app/config/<slug:slug>/edit", config_edit.config_edit, name="config_edit"),
    path("app/config/<slug:slug>/history", config_history.history, name="config_history"),
    path("app/config/<slug:slug>/compare", config_history.compare, name="config_compare"),
    path("app/config/<slug:slug>/policies", config_policies.policies, name="config_policies"),
    path(
        "app/config/<slug:slug>/policies/<uuid:policy_id>/remove",
        config_policies.policy_remove,
        name="config_policy_remove",
    ),
    path("app/config/<slug:slug>/credentials", config_credentials.credentials, name="config_credentials"),
    path(
        "app/config/<slug:slug>/credentials/<uuid:grant_id>/revoke",
        config_credentials.grant_revoke,
        name="config_grant_revoke",
    ),
    path("app/reviews", reviews.reviews, name="reviews"),
    path("app/reviews/<uuid:review_id>", reviews.review, name="review"),
    path("app/reviews/<uuid:review_id>/decide", reviews.review_decide, name="review_decide"),
    path("app/security", security.security, name="security"),
    path("app/security/password", security.password, name="security_password"),
    path("app/security/authenticator", security.authenticator, name="security_authenticator"),
    path("app/security/authenticator/begin", security.authenticator_start, name="security_authenticator_begin"),
    path("app/security/authenticator/remove", security.authenticator_drop, name="security_authenticator_remove"),
    path("app/security/recovery-codes", security.recovery_codes, name="security_recovery_codes"),
    path("app/security/browsers/end", security.browsers_end, name="security_browsers_end"),
    path("app/security/browsers/<uuid:session_id>/end", security.browser_end, name="security_browser_end"),
    path("app/evaluations", evaluations.evaluations, name="evaluations"),
    path("api/docs", docs.api_docs, name="api_docs"),
]
