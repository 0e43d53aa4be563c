from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "controlplane.access"
    verbose_name = "Access"
    default_auto_field = "django.db.models.BigAutoField"
