from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "controlplane.alerts"
    verbose_name = "Alerts"
    default_auto_field = "django.db.models.BigAutoField"
