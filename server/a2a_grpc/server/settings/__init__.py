"""Everything that can be configured, as one frozen tree that is filled from `A2A_*` environment variables.

Only `main` knows this package: it hands each component its own values.
"""

from a2a_grpc.server.settings.load import load
from a2a_grpc.server.settings.source import SettingsError
from a2a_grpc.server.settings.tree import Settings

__all__ = ["Settings", "SettingsError", "load"]
