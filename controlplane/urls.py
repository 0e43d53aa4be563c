"""URLs of the project. HTML lives under ``/app``, ``/login`` and ``/admin``; the API under ``/api/v1``."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView

from controlplane.core import health

api: list[URLPattern | URLResolver] = [
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("", include("controlplane.access.urls")),
    path("", include("controlplane.orgs.urls")),
    path("", include("controlplane.reviews.urls")),
    path("", include("controlplane.configs.urls")),
    path("", include("controlplane.audit.urls")),
    path("", include("controlplane.runtimes.urls")),
    path("", include("controlplane.investigations.urls")),
    path("", include("controlplane.alerts.urls")),
]

urlpatterns = [
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1/", include(api)),
    path("", include("controlplane.investigations.opensre.urls")),
    # One way to sign in: the admin's own page would know neither lock nor second factor.
    path("admin/login/", RedirectView.as_view(pattern_name="web:login", query_string=True), name="admin_login"),
    path("admin/", admin.site.urls),
    path("", include("web.urls")),
]

handler400 = "web.errors.bad_request"
handler403 = "web.errors.permission_denied"
handler404 = "web.errors.page_not_found"
handler500 = "web.errors.server_error"
