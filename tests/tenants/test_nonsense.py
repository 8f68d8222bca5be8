"""Whatever stands in a file of agents or of a card: it is used, or refused with sentences that name the file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.card_file import CardFileError, load_card
from a2a_grpc.server.compose.hosts import host_many
from a2a_grpc.server.hosting.agents_file import AgentsFileError
from a2a_grpc.server.settings import load

RED = "tests.tenants.agents:red"
HEX = "ab" * 32
SETTINGS = load({})

WORDS = st.sampled_from(
    ["", "caller", "tenant", "claim:org", "apiKey", "bearer", "bearer(x)+mtls", "san", "anonymous", "query", "https://a.b",
     "http://a.b", "https://[", "DNS:*.a", "client_credentials", "1.0", "text/plain", "x-key", "tenant", HEX]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | WORDS | st.text(max_size=8)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers() | st.text(max_size=5), inner),
    max_leaves=6,
)


def shaped(known: dict[str, Any]) -> st.SearchStrategy[Any]:
    """A section in which most is as it should be, or anything."""
    values = {
        name: value | ANYTHING if isinstance(value, st.SearchStrategy) else value for name, value in known.items()
    }
    return st.fixed_dictionaries({}, optional={**values, "nothing": ANYTHING}) | ANYTHING


TOKENS = shaped({"issuer": WORDS, "audience": WORDS, "jwks_url": WORDS, "jwks_file": WORDS, "algorithms": ANYTHING,
                 "scopes": ANYTHING, "leeway": st.floats()})  # fmt: skip
AUTH = shaped(
    {
        "api_keys": shaped({"keys": st.dictionaries(WORDS, WORDS), "location": WORDS, "name": WORDS}),
        "jwt": TOKENS,
        "oidc": TOKENS,
        "oauth2": shaped({"flows": WORDS, "token_url": WORDS, "scopes": ANYTHING}),
        "mtls": WORDS,
        "mtls_allow": WORDS,
        "security": WORDS,
        "owner": WORDS,
    }
)
QUOTA = shaped({"rates": shaped({"send": st.floats(), "read": ANYTHING}), "calls": st.integers(), "tasks": ANYTHING})
LIMITS = shaped({"max_message_bytes": st.integers(), "caller": QUOTA, "tenant": QUOTA})
CARD = shaped(
    {
        name: ANYTHING
        for field in a2a_pb2.AgentCard.DESCRIPTOR.fields
        for name in (field.name, field.json_name)
    }
)  # fmt: skip
ENTRY = shaped({"agent": st.sampled_from([RED, "nothere:agent", "x"]), "card": CARD, "auth": AUTH, "limits": LIMITS})
AGENTS = st.dictionaries(st.sampled_from(["", "acme", "a b", "tasks", ".x"]), ENTRY, max_size=2)
DOCUMENTS = st.fixed_dictionaries({"agents": AGENTS}) | shaped({"agents": AGENTS}) | CARD


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A file: a document, at times with a few bytes that are others."""
    form = draw(st.sampled_from(["yaml", "flow", "raw"]))
    if form == "raw":
        return draw(st.binary(max_size=60) | st.text("ab:-[]{}&*!|>%@`'\"#,? \n\t0", max_size=60).map(str.encode))
    data = yaml.safe_dump(draw(DOCUMENTS), allow_unicode=True, default_flow_style=form == "flow").encode()
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(data)))
        data = (
            data[:place]
            + draw(st.binary(max_size=3) | st.sampled_from([b"!!int ", b"&a ", b"*a", b"<<: "]))
            + data[place:]
        )
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(data=texts())
def test_no_file_of_agents_breaks_anything(data: bytes, folder: Path) -> None:
    path = folder / "agents.yaml"
    path.write_bytes(data)
    try:
        hosts = host_many(SETTINGS, str(path))
    except AgentsFileError as error:
        told = str(error)
    else:
        assert all(hosted.card.name for hosted in hosts)
        return
    for line in told.splitlines():
        assert re.match(rf"{re.escape(str(path))}(, line [1-9][0-9]*)?: .", line), told


@quick
@given(
    data=texts() | CARD.map(lambda value: json.dumps(value, default=str, skipkeys=True).encode()),
    end=st.sampled_from(["yaml", "json"]),
)
def test_no_file_of_a_card_breaks_anything(data: bytes, end: str, folder: Path) -> None:
    path = folder / f"card.{end}"
    path.write_bytes(data)
    try:
        load_card(path)
    except CardFileError as error:
        for line in str(error).splitlines():
            assert re.match(rf"{re.escape(str(path))}: .", line), str(error)
