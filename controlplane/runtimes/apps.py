from django.apps import AppConfig


class RuntimesConfig(AppConfig):
    name = "controlplane.runtimes"
    verbose_name = "Runtimes"
    default_auto_field = "django.db.models.BigAutoField"
