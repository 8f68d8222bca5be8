"""What each scheme of authentication costs a call. `python -m bench.authentication [ROUNDS CALLS]`."""

import asyncio
import hashlib
import json
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import grpc.aio
import httpx
import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from google.protobuf import json_format
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import message
from bench.processes import Server, service, store
from tests.support.certificates import Authority, Files

_AGENT = "bench.agent:agent"
_KEYS = {f"caller-{number}": f"key-{number}" for number in range(100)}
_ISSUER, _AUDIENCE = "https://issuer.example.com", "https://agent.example.com"
_VERSION = {"a2a-version": "1.0"}
_AT_ONCE = 8

Headers = Mapping[str, str]
Send = Callable[[Headers], Awaitable[str]]
Get = Callable[[str, Headers], Awaitable[object]]


@dataclass(frozen=True)
class _Case:
    """Calls to one tenant."""

    tenant: str
    headers: Callable[[], Headers] = dict
    query: Headers = field(default_factory=dict)


@dataclass(frozen=True)
class _Group:
    """Cases that are compared with the first of them.

    All in one process: two processes of the same program differ by as much as a scheme costs.
    """

    binding: str
    cases: Mapping[str, _Case]
    authority: Authority | None = None
    """Who vouches for server and callers, where they speak TLS."""
    shown: tuple[bytes, bytes] = (b"", b"")
    """The certificate of the callers, and its key."""


class _Tokens:
    """An issuer's keys, in a file, and tokens that they sign."""

    def __init__(self, folder: Path) -> None:
        self._keys: dict[str, Any] = {
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "RS256": rsa.generate_private_key(65537, 2048),
        }
        self._count = iter(range(10_000_000))
        published = [
            {**json.loads(ECAlgorithm.to_jwk(self._keys["ES256"].public_key())), "kid": "ES256"},
            {**json.loads(RSAAlgorithm.to_jwk(self._keys["RS256"].public_key())), "kid": "RS256"},
        ]
        for entry in published:
            entry.pop("key_ops", None)
        self.path = folder / "keys.json"
        self.path.write_text(json.dumps({"keys": published}))

    def make(self, algorithm: str) -> Headers:
        """A token that nobody has seen before."""
        number = str(next(self._count))
        claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "alice", "exp": time.time() + 3600, "jti": number}
        token = jwt.encode(claims, self._keys[algorithm], algorithm, {"kid": algorithm})
        return {"authorization": f"Bearer {token}"}


def _agents(file: Path, tokens: _Tokens, *, tls: bool) -> Path:
    """A file of agents, one for each kind of authentication."""
    keys = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in _KEYS.items()}
    issuer = {"issuer": _ISSUER, "audience": _AUDIENCE, "jwks_file": str(tokens.path)}
    kinds: dict[str, Any] = {
        "none": "anonymous",
        "keys": {"api_keys": {"keys": keys}},
        "query": {"api_keys": {"keys": keys, "location": "query", "name": "key"}},
        "cookie": {"api_keys": {"keys": keys, "location": "cookie", "name": "key"}},
        "tokens": {"jwt": issuer},
        "keys-and-tokens": {"api_keys": {"keys": keys}, "jwt": issuer, "security": "apiKey+bearer"},
    }
    with_tls: dict[str, Any] = {
        "none": "anonymous",
        "certificates": {"mtls": "san"},
        "certificates-and-tokens": {"mtls": "san", "jwt": issuer, "security": "mtls+bearer"},
    }
    agents = {name: {"agent": _AGENT, "auth": auth} for name, auth in (with_tls if tls else kinds).items()}
    # JSON is YAML.
    file.write_text(json.dumps({"agents": agents}))
    return file


def _plain(tokens: _Tokens) -> Sequence[_Group]:
    """Calls without TLS."""
    es256, rs256 = tokens.make("ES256"), tokens.make("RS256")
    key = {"x-api-key": "key-99"}
    over_grpc = {
        "no authentication": _Case("none"),
        "the same, with a token that nobody reads": _Case("none", lambda: rs256),
        "an API key, one of 100": _Case("keys", lambda: key),
        "a token that is known, ES256": _Case("tokens", lambda: es256),
        "a token that is known, RS256": _Case("tokens", lambda: rs256),
        "a key and a token that is known, ES256": _Case("keys-and-tokens", lambda: {**key, **es256}),
        "a new token for each call, ES256": _Case("tokens", lambda: tokens.make("ES256")),
        "a new token for each call, RS256": _Case("tokens", lambda: tokens.make("RS256")),
    }
    over_http = {
        "no authentication": _Case("none"),
        "an API key in a header": _Case("keys", lambda: key),
        "an API key in the query": _Case("query", query={"key": "key-99"}),
        "an API key in a cookie": _Case("cookie", lambda: {"cookie": "key=key-99"}),
        "a token that is known, ES256": _Case("tokens", lambda: es256),
    }
    return [_Group("gRPC", over_grpc), _Group("HTTP+JSON", over_http)]


def _secure(tokens: _Tokens, authority: Authority) -> Sequence[_Group]:
    """Calls over TLS. Whoever calls over gRPC shows a certificate there."""
    es256 = tokens.make("ES256")
    cases = {
        "a certificate that nobody reads": _Case("none"),
        "a certificate (mutual TLS)": _Case("certificates"),
        "a certificate and a token that is known, ES256": _Case("certificates-and-tokens", lambda: es256),
    }
    shown = authority.issue("caller", [x509.UniformResourceIdentifier("spiffe://example.com/caller")])
    return [_Group("gRPC over TLS", cases, authority, shown)]


@asynccontextmanager
async def _connected(server: Server, group: _Group, case: _Case) -> AsyncIterator[tuple[Send, Get]]:
    """What sends a message that makes a task, and what reads it, over one connection or as many as HTTP takes."""
    if group.binding == "HTTP+JSON":
        async with httpx.AsyncClient(base_url=f"{server.http}/{case.tenant}", params=case.query) as client:

            async def post(headers: Headers) -> str:
                sent = {"content-type": "application/a2a+json", **_VERSION, **headers}
                body = json_format.MessageToJson(message("work"))
                answer = await client.post("/message:send", content=body, headers=sent)
                return str(answer.raise_for_status().json()["task"]["id"])

            async def get(task_id: str, headers: Headers) -> object:
                return (await client.get(f"/tasks/{task_id}", headers={**_VERSION, **headers})).raise_for_status()

            yield post, get
        return
    chain, key = group.shown
    async with (
        grpc.aio.insecure_channel(server.grpc)
        if group.authority is None
        else grpc.aio.secure_channel(server.grpc, grpc.ssl_channel_credentials(group.authority.pem, key, chain))
    ) as channel:
        stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)

        async def send(headers: Headers) -> str:
            request = message("work")
            request.tenant = case.tenant
            return str((await stub.SendMessage(request, metadata=tuple({**_VERSION, **headers}.items()))).task.id)

        async def read(task_id: str, headers: Headers) -> object:
            request = a2a_pb2.GetTaskRequest(id=task_id, tenant=case.tenant)
            return await stub.GetTask(request, metadata=tuple({**_VERSION, **headers}.items()))

        yield send, read


async def _load(server: Server, group: _Group, case: _Case, calls: int) -> float:
    """Microseconds of the server's processor time for each of so many GetTask, some at a time."""
    headers = iter([case.headers() for _ in range(calls)])
    async with _connected(server, group, case) as (send, get):
        task_id = await send(case.headers())

        async def work() -> None:
            for sent in headers:
                await get(task_id, sent)

        before = server.cpu_seconds
        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
        return 1e6 * (server.cpu_seconds - before) / calls


def _compare(server: Server, group: _Group, rounds: int, calls: int) -> Iterator[tuple[str, str, float, float]]:
    taken: dict[str, list[float]] = {name: [] for name in group.cases}
    for turn in range(rounds + 1):
        for name, case in group.cases.items():
            found = asyncio.run(_load(server, group, case, calls))
            if turn:  # the first one warms up
                taken[name].append(found)
    base = taken[next(iter(taken))]
    for name, seen in taken.items():
        yield group.binding, name, median(seen), median(one / other for one, other in zip(seen, base, strict=True))


def measure(rounds: int, calls: int) -> Iterator[tuple[str, str, float, float]]:
    """Binding, scheme, microseconds of the server's processor time for a call, and that against no authentication."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(store())
        tokens, authority = _Tokens(folder), Authority()
        agents = _agents(folder / "plain.yaml", tokens, tls=False)
        with service(url, agent=str(agents)) as server:
            for group in _plain(tokens):
                yield from _compare(server, group, rounds, calls)
        agents = _agents(folder / "tls.yaml", tokens, tls=True)
        files = Files(folder, authority.issue_server(), authority.pem)
        trusted = ssl.create_default_context(cadata=authority.pem.decode())
        settings: Any = {
            **files.settings(),
            "A2A_TLS_CLIENT_CERT": "optional",
            "A2A_TLS_GRPC_CLIENT_CERT": "required",
        }
        with service(url, agent=str(agents), trusted=trusted, **settings) as server:
            for group in _secure(tokens, authority):
                yield from _compare(server, group, rounds, calls)


def _main(rounds: int, calls: int) -> None:
    sys.stdout.write("| GetTask over | with | CPU µs a call | against none |\n|---|---|---|---|\n")
    for binding, scheme, microseconds, ratio in measure(rounds, calls):
        sys.stdout.write(f"| {binding} | {scheme} | {microseconds:.0f} | {ratio:.2f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main(*(int(given) for given in sys.argv[1:3] or ("9", "3000")))
