from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    name = "controlplane.reviews"
    verbose_name = "Reviews"
    default_auto_field = "django.db.models.BigAutoField"
