"""Sources of evidence, and the tools that query them."""

from controlplane.runtimes.sources.snapshot import missing_sources, snapshot_from_folder, snapshot_validate
from controlplane.runtimes.sources.tools import EvidenceTools, toolbox_for_snapshot

__all__ = [
    "EvidenceTools",
    "missing_sources",
    "snapshot_from_folder",
    "snapshot_validate",
    "toolbox_for_snapshot",
]
