"""Real servers that speak TLS."""

import contextlib
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import httpx

from tests.support.certificates import Files
from tests.support.replica import READY_TIMEOUT, Replica


class Trusted(Protocol):
    """An authority as those know it who trust it."""

    @property
    def pem(self) -> bytes: ...


class SecureReplica(Replica):
    """`a2a-grpc serve` over TLS."""

    def __init__(self, agent: str, files: Files, authority: Trusted, **env: str) -> None:
        super().__init__(agent=agent, redis_url=None, env={**files.settings(), **env})
        self.authority = authority
        self.http_url = self.http_url.replace("http://", "https://")

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        with httpx.Client(trust_env=False, verify=trusting(self.authority)) as client:
            while True:
                assert self.alive, self.log()
                with contextlib.suppress(httpx.TransportError):
                    if client.get(f"{self.http_url}/readyz").status_code == httpx.codes.OK:
                        return
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.02)


@contextlib.contextmanager
def serving(agent: str, files: Files, authority: Trusted, **env: str) -> Iterator[SecureReplica]:
    """A ready one."""
    service = SecureReplica(agent, files, authority, **env)
    try:
        service.start()
        yield service
    finally:
        service.close()


def trusting(authority: Trusted, shown: Path | None = None) -> ssl.SSLContext:
    """What a client over HTTP takes; `shown` holds the certificate that it shows and its key."""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if shown is not None:
        context.load_cert_chain(shown)
    return context
