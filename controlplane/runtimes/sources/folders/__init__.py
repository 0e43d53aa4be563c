"""Recorded evidence in a folder: the layout of our own, and those other recordings come in.

The folder may hold anything: links that lead elsewhere, pipes that block, devices, files without end. Everything is
opened relative to a folder already open, never by a path put together from names, and never through a link.
"""

import os
from pathlib import Path

from controlplane.core.errors import invalid
from controlplane.runtimes.sources.folders.evidence import SOURCE_NAME, announced_sources, read_evidence
from controlplane.runtimes.sources.folders.files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    POINTER,
    Folder,
    has_file,
    open_folder,
    printable,
)
from controlplane.runtimes.sources.folders.metric_tables import TABLE, read_metric_tables
from controlplane.runtimes.sources.folders.service_records import INCIDENTS, SERVICES, read_service_records

__all__ = [
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_TOTAL_BYTES",
    "SOURCE_NAME",
    "Folder",
    "announced_sources",
    "printable",
    "read_folder",
]


def read_folder(path: Path) -> Folder:
    """Read the evidence of a folder, in whichever layout it has; only the files of that layout are opened.

    Raises:
        InvalidInput: ``evidence_not_found``, ``evidence_not_a_folder`` or ``evidence_empty``, for the whole folder.
    """
    root = open_folder(path)
    folder, room = Folder(), [MAX_TOTAL_BYTES]
    try:
        if has_file(root, TABLE):
            read_metric_tables(folder, root, room)
        elif has_file(root, SERVICES) or has_file(root, INCIDENTS):
            read_service_records(folder, root, room)
        else:
            read_evidence(folder, root, room)
    finally:
        os.close(root)
    if folder.alert is None and folder.scenario is None and not folder.sources:
        why = "; ".join(f"{name} {reason}" for name, reason in list(folder.unreadable.items())[:5])
        told = f": {why}" if why else ""
        raise invalid(POINTER, "evidence_empty", f"The folder holds no evidence that can be read{told}.")
    return folder
