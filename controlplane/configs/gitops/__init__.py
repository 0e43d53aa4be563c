"""Configuration as files: a tree of YAML, a plan, an apply; all through the services that every other write takes."""
