"""Rate limits per token, person and address, right across processes. How: :mod:`.windows`; what: :mod:`.rules`."""
