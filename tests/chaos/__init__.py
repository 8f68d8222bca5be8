"""Replicas, stores and callers that fail at random, and a model that says what must hold all the same."""
