"""The remote runtime: an OpenSRE-compatible agent server works, its events come into the log."""

from controlplane.runtimes.remote.runtime import RemoteRuntime

__all__ = ["RemoteRuntime"]
