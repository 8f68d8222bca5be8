"""Callers over every binding."""

from tests.conformance.conftest import binding, connect, connect_over

__all__ = ["binding", "connect", "connect_over"]
