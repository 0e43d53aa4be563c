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
runs_handed_over_total = Counter(
    "opensre_runs_handed_over_total", "Runs this process gave back when it was told to stop.", registry=registry
)
leases_lost_total = Counter("opensre_leases_lost_total", "Runs this process lost to another.", registry=registry)
streams_open = Gauge("opensre_streams_open", "Open event streams of this process.", registry=registry)
hub_log_reads_total = Counter(
    "opensre_hub_log_reads_total", "Pages the hub read from the log.", ["why"], registry=registry
)
sockets_open = Gauge("opensre_sockets_open", "Open WebSockets of this process.", registry=registry)
sockets_closed_total = Counter(
    "opensre_sockets_closed_total", "WebSockets this process closed.", ["code"], registry=registry
)
socket_commands_total = Counter(
    "opensre_socket_commands_total", "Commands over WebSockets.", ["command", "outcome"], registry=registry
)
bus_connected = Gauge(
    "opensre_bus_connected",
    "1 while the bus between processes carries.",
    registry=registry,
)
bus_messages_total = Counter(
    "opensre_bus_messages_total",
    "Messages on the bus: sent, received from other processes, refused (not of this installation).",
    ["direction"],
    registry=registry,
)
bus_events_dropped_total = Counter(
    "opensre_bus_events_dropped_total",
    "Events not put on the bus because it did not carry or was too slow; they are read from the log.",
    registry=registry,
)
bus_failures_total = Counter("opensre_bus_failures_total", "Times the bus was lost or out of reach.", registry=registry)
hub_polls_total = Counter(
    "opensre_hub_polls_total", "Times the hub read the heads of what is watched.", registry=registry
)
streams_refused_total = Counter(
    "opensre_streams_refused_total", "Streams refused because all places were taken.", ["why"], registry=registry
)
feedback_total = Counter(
    "opensre_feedback_given_total", "Ratings of runs taken by this process.", ["verdict", "change"], registry=registry
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
