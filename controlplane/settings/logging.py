"""Structured logs: structlog renders both its own events and those of libraries; redaction is the last processor."""

from typing import Any

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def _redact(_logger: Any, _method: str, event: dict[str, Any]) -> Any:
    # Imported at the first log line: settings must load before anything of the project does.
    from controlplane.core.redaction import redact_json

    return redact_json(event)


def _renderers(log_format: str) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, _redact, structlog.processors.JSONRenderer(default=str)]
    return [structlog.processors.format_exc_info, _redact, structlog.dev.ConsoleRenderer(colors=False)]


def configure_logging() -> None:
    """Configure structlog for the process; what a line looks like is decided by :func:`logging_settings`."""
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logging_settings(level: str, log_format: str) -> dict[str, Any]:
    """Return Django's ``LOGGING`` dictionary: one stream handler, rendered by structlog."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format)],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "uvicorn.access": {"level": "WARNING", "propagate": True, "handlers": []},
            "uvicorn.error": {"level": "INFO", "propagate": True, "handlers": []},
            # each request with its whole URL, which is a query of somebody's system
            "httpx": {"level": "WARNING", "propagate": True, "handlers": []},
            # every header of every answer, in which a server may repeat what was sent to it
            "httpcore": {"level": "WARNING", "propagate": True, "handlers": []},
            # a line for every job at INFO, with its arguments; our own ``tasks.*`` lines say which failed
            "procrastinate": {"level": "WARNING", "propagate": True, "handlers": []},
            "django.server": {"level": "INFO", "propagate": True, "handlers": []},
            # its warnings are 4xx answers with their path, which our own ``http.request`` line has without the path
            "django.request": {"level": "ERROR", "propagate": True, "handlers": []},
            # the same for refused forms: the path of a sign-in link is its secret
            "django.security.csrf": {"level": "ERROR", "propagate": True, "handlers": []},
        },
    }
