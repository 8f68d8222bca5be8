"""Query parameters."""

from urllib.parse import parse_qsl

from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.wire.errors import InvalidArgumentError
from a2a_grpc.wire.headers import A2A_VERSION

_MAX_FIELDS = 100

Query = list[tuple[str, str]]


def read_query(exchange: Exchange) -> Query:
    """The decoded parameters of the URL, without A2A-Version, which joins the service parameters.

    3.6.1 lets callers name the version in the URL, which is all that a browser's EventSource can do; a header that says
    something comes first. Raises InvalidArgumentError for a query that cannot be decoded.
    """
    raw: bytes = exchange.scope["query_string"]
    if not raw:
        return []
    try:
        fields = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise InvalidArgumentError(
            f"The query of the URL cannot be read: at most {_MAX_FIELDS} parameters, percent-encoded UTF-8."
        ) from None
    query: Query = []
    for name, value in fields:
        if name.lower() == A2A_VERSION:
            if not exchange.parameters.get(A2A_VERSION):
                exchange.parameters[A2A_VERSION] = value
        else:
            query.append((name, value))
    return query
