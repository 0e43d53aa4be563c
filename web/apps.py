import warnings

from django.apps import AppConfig
from typing_extensions import override


class WebConfig(AppConfig):
    name = "web"
    verbose_name = "Web"

    @override
    def ready(self) -> None:
        # Whitenoise hands files over as a plain iterator; under ASGI Django reads each in a thread and warns. They are
        # small, and production puts them behind a proxy or a cache.
        warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
