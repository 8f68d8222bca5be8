"""Which app answers which path of the HTTP listener."""

from urllib.parse import quote

from a2a_grpc.server.bindings.asgi.card import CardEndpoint, card_tenant
from a2a_grpc.server.bindings.asgi.health import Health
from a2a_grpc.server.bindings.asgi.root import root_tenant
from a2a_grpc.server.bindings.asgi.types import App, Receive, Scope, Send

_TO_ROOTS = frozenset({"POST", "OPTIONS"})


class Router:
    """The app that a listener serves: the gateway, with everything else that lives on the same port before it."""

    def __init__(
        self, *, gateway: App, jsonrpc: App, card: App | CardEndpoint, health: Health, keys: App | None = None
    ) -> None:
        self._gateway = gateway
        self._jsonrpc = jsonrpc
        self._card = card
        self._exact: dict[bytes, App] = {
            b"/healthz": health.live,
            b"/readyz": health.ready,
            # A client may append a slash to an address that ends with one.
            b"/": jsonrpc,
            b"//": jsonrpc,
            b"": jsonrpc,
        }
        if keys is not None:
            self._exact[b"/.well-known/jwks.json"] = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to its app. Only HTTP is served: neither lifespan nor websockets."""
        path = _path(scope)
        app = self._exact.get(path)
        if app is None:
            app = self._gateway
            if b"/.well-known/" in path and card_tenant(path) is not None:
                app = self._card
            elif path.endswith(b"/") and scope["method"] in _TO_ROOTS and root_tenant(path) is not None:
                app = self._jsonrpc
        await app(scope, receive, send)


class PlainRouter:
    """The same for a service that has neither a card nor JSON-RPC."""

    def __init__(self, *, gateway: App, health: Health) -> None:
        self._gateway = gateway
        self._exact: dict[bytes, App] = {b"/healthz": health.live, b"/readyz": health.ready}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to its app; see `Router`."""
        await self._exact.get(_path(scope), self._gateway)(scope, receive, send)


def _path(scope: Scope) -> bytes:
    """The path as it was sent; servers that leave it out get it written."""
    if scope["type"] != "http":
        raise RuntimeError(f"ASGI scope {scope['type']} is not served")
    path: bytes | None = scope.get("raw_path")
    if path is None:
        path = scope["raw_path"] = quote(scope["path"]).encode()
    return path
