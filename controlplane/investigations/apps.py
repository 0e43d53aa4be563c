from django.apps import AppConfig


class InvestigationsConfig(AppConfig):
    name = "controlplane.investigations"
    verbose_name = "Investigations"
    default_auto_field = "django.db.models.BigAutoField"
