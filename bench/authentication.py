"""What each scheme of authentication costs a call. `python -m bench.authentication`."""

import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import grpc.aio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.processes import SERVER_CPU, Server, service, store
from bench.throughput import message

_KEYS = {f"caller-{number}": f"key-{number}" for number in range(100)}
_ISSUER, _AUDIENCE = "https://issuer.example.com", "https://agent.example.com"

Headers = Callable[[], Mapping[str, str]]


def _tokens(folder: Path) -> tuple[dict[str, str], Callable[[str], str]]:
    """The settings for an issuer whose keys are in a file, and what makes its tokens."""
    ecdsa, rsa_key = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)
    keys: dict[str, Any] = {"ES256": ecdsa, "RS256": rsa_key}
    published = [
        {**json.loads(ECAlgorithm.to_jwk(ecdsa.public_key())), "kid": "ES256"},
        {**json.loads(RSAAlgorithm.to_jwk(rsa_key.public_key())), "kid": "RS256"},
    ]
    for entry in published:
        entry.pop("key_ops", None)
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": published}))
    settings = {"A2A_JWT_ISSUER": _ISSUER, "A2A_JWT_AUDIENCE": _AUDIENCE, "A2A_JWT_JWKS_FILE": str(path)}
    count = iter(range(10_000_000))

    def make(algorithm: str) -> str:
        claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "alice", "exp": time.time() + 3600, "jti": str(next(count))}
        return jwt.encode(claims, keys[algorithm], algorithm, {"kid": algorithm})

    return settings, make


async def _load(server: Server, task_id: str, headers: list[Mapping[str, str]]) -> None:
    """GetTask with each of `headers`, eight at a time over one connection."""
    request = a2a_pb2.GetTaskRequest(id=task_id)
    left = iter(headers)
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)

        async def work() -> None:
            for sent in left:
                await stub.GetTask(request, metadata=(("a2a-version", "1.0"), *sent.items()))

        await asyncio.gather(*(work() for _ in range(8)))


async def _made(server: Server, headers: Mapping[str, str]) -> str:
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        sent = (("a2a-version", "1.0"), *headers.items())
        return (await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(message("work"), metadata=sent)).task.id


def measure(rounds: int, calls: int) -> Iterator[tuple[str, float, float]]:
    """Scheme, microseconds of the server's processor time for a call, and that against no authentication."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(store())
        settings, make = _tokens(folder)
        digests = ",".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in _KEYS.items())
        servers = {
            "none": stack.enter_context(service(url)),
            "keys": stack.enter_context(service(url, A2A_API_KEYS=digests)),
            "tokens": stack.enter_context(service(url, SERVER_CPU, **settings)),
        }
        es256, rs256 = make("ES256"), make("RS256")
        cases: dict[str, tuple[str, Headers]] = {
            "no authentication": ("none", dict),
            "an API key, one of 100": ("keys", lambda: {"x-api-key": "key-99"}),
            "a token, ES256": ("tokens", lambda: {"authorization": f"Bearer {es256}"}),
            "a token, RS256": ("tokens", lambda: {"authorization": f"Bearer {rs256}"}),
            "a new token for each call, ES256": ("tokens", lambda: {"authorization": f"Bearer {make('ES256')}"}),
            "a new token for each call, RS256": ("tokens", lambda: {"authorization": f"Bearer {make('RS256')}"}),
        }
        tasks = {name: asyncio.run(_made(servers[at], make_headers())) for name, (at, make_headers) in cases.items()}
        taken: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(rounds + 1):
            for name, (at, make_headers) in cases.items():
                headers = [make_headers() for _ in range(calls)]
                before = servers[at].cpu_seconds
                asyncio.run(_load(servers[at], tasks[name], headers))
                if turn:  # the first one warms up
                    taken[name].append(1e6 * (servers[at].cpu_seconds - before) / calls)
        for name, seen in taken.items():
            against = [one / other for one, other in zip(seen, taken["no authentication"], strict=True)]
            yield name, median(seen), median(against)


if __name__ == "__main__":
    sys.stdout.write("| GetTask over gRPC with | CPU µs a call | against none |\n|---|---|---|\n")
    for scheme, microseconds, ratio in measure(5, 3_000):
        sys.stdout.write(f"| {scheme} | {microseconds:.0f} | {ratio:.2f} |\n")
