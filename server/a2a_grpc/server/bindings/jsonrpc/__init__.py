"""The JSON-RPC 2.0 binding (section 9)."""

from a2a_grpc.server.bindings.jsonrpc.app import create_app

__all__ = ["create_app"]
