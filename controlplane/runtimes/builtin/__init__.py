"""The built-in runtime: it investigates by rules, without a model, a key or a network of its own."""

from controlplane.runtimes.builtin.runtime import BuiltinRuntime

__all__ = ["BuiltinRuntime"]
