"""What each scheme of authentication costs a call. `python -m bench.authentication`."""

import asyncio
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import grpc.aio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import message
from bench.processes import Server, service, store

_AGENT = "bench.agent:agent"
_KEYS = {f"caller-{number}": f"key-{number}" for number in range(100)}
_ISSUER, _AUDIENCE = "https://issuer.example.com", "https://agent.example.com"

Headers = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class _Case:
    """Calls to one tenant."""

    tenant: str
    headers: Headers


def _cases(folder: Path) -> tuple[Path, dict[str, _Case]]:
    """A file of agents, one for each kind of authentication, and calls to them.

    All are in one process: two processes of the same program differ by as much as a scheme costs.
    """
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
    count = iter(range(10_000_000))

    def make(algorithm: str) -> Mapping[str, str]:
        claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "alice", "exp": time.time() + 3600, "jti": str(next(count))}
        token = jwt.encode(claims, keys[algorithm], algorithm, {"kid": algorithm})
        return {"authorization": f"Bearer {token}"}

    digests = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in _KEYS.items()}
    issuer = {"issuer": _ISSUER, "audience": _AUDIENCE, "jwks_file": str(path)}
    file = folder / "agents.yaml"
    # JSON is YAML.
    file.write_text(
        json.dumps(
            {
                "agents": {
                    "none": {"agent": _AGENT, "auth": "anonymous"},
                    "keys": {"agent": _AGENT, "auth": {"api_keys": {"keys": digests}}},
                    "tokens": {"agent": _AGENT, "auth": {"jwt": issuer}},
                }
            }
        )
    )
    es256, rs256 = make("ES256"), make("RS256")
    return file, {
        "no authentication": _Case("none", dict),
        "the same, with a token that nobody reads": _Case("none", lambda: rs256),
        "an API key, one of 100": _Case("keys", lambda: {"x-api-key": "key-99"}),
        "a token that is known, ES256": _Case("tokens", lambda: es256),
        "a token that is known, RS256": _Case("tokens", lambda: rs256),
        "a new token for each call, ES256": _Case("tokens", lambda: make("ES256")),
        "a new token for each call, RS256": _Case("tokens", lambda: make("RS256")),
    }


async def _load(server: Server, tenant: str, task_id: str, headers: list[Mapping[str, str]]) -> None:
    """GetTask with each of `headers`, eight at a time over one connection."""
    request = a2a_pb2.GetTaskRequest(id=task_id, tenant=tenant)
    left = iter(headers)
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)

        async def work() -> None:
            for sent in left:
                await stub.GetTask(request, metadata=(("a2a-version", "1.0"), *sent.items()))

        await asyncio.gather(*(work() for _ in range(8)))


async def _made(server: Server, case: _Case) -> str:
    request = message("work")
    request.tenant = case.tenant
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        sent = (("a2a-version", "1.0"), *case.headers().items())
        return (await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(request, metadata=sent)).task.id


def measure(rounds: int, calls: int) -> Iterator[tuple[str, float, float]]:
    """Scheme, microseconds of the server's processor time for a call, and that against no authentication."""
    with ExitStack() as stack:
        file, cases = _cases(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        server = stack.enter_context(service(stack.enter_context(store()), agent=str(file)))
        tasks = {name: asyncio.run(_made(server, case)) for name, case in cases.items()}
        taken: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(rounds + 1):
            for name, case in cases.items():
                headers = [case.headers() for _ in range(calls)]
                before = server.cpu_seconds
                asyncio.run(_load(server, case.tenant, tasks[name], headers))
                if turn:  # the first one warms up
                    taken[name].append(1e6 * (server.cpu_seconds - before) / calls)
        for name, seen in taken.items():
            against = [one / other for one, other in zip(seen, taken["no authentication"], strict=True)]
            yield name, median(seen), median(against)


if __name__ == "__main__":
    sys.stdout.write("| GetTask over gRPC with | CPU µs a call | against none |\n|---|---|---|\n")
    for scheme, microseconds, ratio in measure(9, 3_000):
        sys.stdout.write(f"| {scheme} | {microseconds:.0f} | {ratio:.2f} |\n")
