"""The catalogue: what can be connected, with which fields, and templates to start from. Data, in Python literals."""
