from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "controlplane.core"
    verbose_name = "Core"
    default_auto_field = "django.db.models.BigAutoField"
