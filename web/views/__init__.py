"""The pages: thin functions that ask selectors and services and fill a template."""
