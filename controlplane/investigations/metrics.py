"""Metrics of runs, the log and the streams."""

from prometheus_client import Counter, Gauge, Histogram

from controlplane.core.metrics import registry

events_appended_total = Counter(
    "opensre_log_events_total", "Events appended by this process.", ["type"], registry=registry
)
runs_claimed_total = Counter("opensre_runs_claimed_total", "Runs claimed by this process.", registry=registry)
runs_ended_total = Counter("opensre_runs_ended_total", "Runs ended by this process.", ["status"], registry=registry)
run_duration_seconds = Histogram(
    "opensre_run_duration_seconds",
    "Time from acceptance to end.",
    ["status"],
    buckets=(0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=registry,
)
runs_running = Gauge("opensre_runs_running", "Runs this process works on.", registry=registry)
leases_lost_total = Counter("opensre_leases_lost_total", "Runs this process lost to another.", registry=registry)
streams_open = Gauge("opensre_streams_open", "Open event streams of this process.", registry=registry)
hub_log_reads_total = Counter(
    "opensre_hub_log_reads_total", "Pages the hub read from the log.", ["why"], registry=registry
)
feedback_total = Counter(
    "opensre_feedback_total", "Ratings of runs taken by this process.", ["verdict", "change"], registry=registry
)
webhook_attempts_total = Counter(
    "opensre_webhook_attempts_total", "Attempts to deliver webhooks by this process.", ["result"], registry=registry
)
threads_retired_total = Counter(
    "opensre_threads_retired_total", "Investigations removed by retention, by this process.", registry=registry
)
files_stored_total = Counter(
    "opensre_files_stored_total", "Files stored by this process.", ["direction"], registry=registry
)
