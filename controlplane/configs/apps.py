from django.apps import AppConfig


class ConfigsConfig(AppConfig):
    name = "controlplane.configs"
    verbose_name = "Configuration"
    default_auto_field = "django.db.models.BigAutoField"
