"""Telling receivers that runs ended: an outbox in the database, signed requests, retries until somebody looks."""
