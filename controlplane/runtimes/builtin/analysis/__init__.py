"""Reasoning over evidence, in small pure functions: no clock, no files, no network."""
