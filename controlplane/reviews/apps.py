from django.apps import AppConfig
from typing_extensions import override


class ReviewsConfig(AppConfig):
    name = "controlplane.reviews"
    verbose_name = "Reviews"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.core.periodic import register_periodic
        from controlplane.reviews.services import reviews_expire

        register_periodic("reviews.expire", reviews_expire, every_s=300)
