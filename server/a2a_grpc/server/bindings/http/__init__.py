"""The HTTP+JSON binding (section 11): a gateway whose routes come from the annotations of the proto."""

from a2a_grpc.server.bindings.http.app import create_app

__all__ = ["create_app"]
