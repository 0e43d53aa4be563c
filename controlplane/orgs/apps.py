from django.apps import AppConfig


class OrgsConfig(AppConfig):
    name = "controlplane.orgs"
    verbose_name = "Organizations"
    default_auto_field = "django.db.models.BigAutoField"
