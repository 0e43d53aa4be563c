"""Live systems as sources: Prometheus, Alertmanager, Loki."""
