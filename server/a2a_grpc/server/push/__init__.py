"""Webhooks: what callers may ask for, where the service connects to for them, and the delivery of events."""
