"""Ports that several processes listen on together (SO_REUSEPORT)."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from a2a_grpc.server.settings.values import Address

SUPPORTED: Final = hasattr(socket, "SO_REUSEPORT")


def reserve(addr: Address, stack: ExitStack) -> int:
    """Keep the port of `addr` (0: a free one) for processes of this user that share it, until `stack` ends.

    Sockets that share a port are content with each other whoever they are, so another group of processes there would
    not be noticed. Hence a look without sharing comes first, which also finds a group that does not listen yet. The
    reserved sockets do not listen, so they get no connections. Raises: OSError where nobody can have the port, or
    somebody else has it.
    """
    port = addr.port
    found = socket.getaddrinfo(addr.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, where in dict.fromkeys(found):
        with _naming(addr):
            if port:
                with _socket(family, kind, protocol, addr) as probe:
                    probe.bind((where[0], port, *where[2:]))
            kept = stack.enter_context(_socket(family, kind, protocol, addr))
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            _bind_alone(kept, (where[0], port, *where[2:]))
            port = kept.getsockname()[1]
    return port


def _bind_alone(kept: socket.socket, where: tuple[object, ...]) -> None:
    # Sockets that all have SO_REUSEADDR stand side by side for as long as none of them listens.
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    try:
        kept.bind(where)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        # Nobody listens there, so these are connections of a service that has just ended.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(where)


def _socket(family: int, kind: int, protocol: int, addr: Address) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    # Connections of a service that has just ended are no reason to wait.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if addr.host == "::" else 1)
    return made


@contextlib.contextmanager
def _naming(addr: Address) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or errno.EADDRNOTAVAIL, f"cannot listen on {addr}: {reason}") from error
