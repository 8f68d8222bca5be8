"""Files of agents: everything that is wrong with one is told at once, with its line."""

import textwrap
from pathlib import Path

import pytest

from a2a_grpc.server.compose.hosts import host_many
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.hosting.limits import GROUPS, group_of
from a2a_grpc.server.settings import load
from a2a_grpc.server.store.stock import Rate
from a2a_grpc.wire import rules

RED = "tests.tenants.agents:red"
HEX = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"


def hosts(folder: Path, text: str, **environ: str) -> Hosts:
    path = folder / "agents.yaml"
    path.write_text(textwrap.dedent(text))
    return host_many(load(environ), str(path))


def problems(folder: Path, text: str, **environ: str) -> list[str]:
    """What is wrong with a file, without the name of it."""
    with pytest.raises(ValueError, match=r".") as refusal:
        hosts(folder, text, **environ)
    return [line.removeprefix(f"{folder}/agents.yaml") for line in str(refusal.value).splitlines()]


def test_a_file_of_everything(tmp_path: Path) -> None:
    found = hosts(
        tmp_path,
        f"""
        agents:
          "": {RED}
          acme:
            agent: {RED}
            card:
              name: Acme
              provider: {{organization: Acme, url: https://acme.example}}
            auth:
              api_keys: {{keys: {{alice: {HEX}, bob: [{HEX[::-1]}, {HEX[::-1].upper()}]}}, location: query, name: key}}
              owner: tenant
            limits:
              max_message_bytes: 4096
              caller: {{rates: {{send: 5, read: {{rate: 2, burst: 30}}}}, streams: 0, tasks: 7}}
              tenant: {{calls: 50}}
        """,
        A2A_LIMIT_CALLER_RATES="follow=1:1",
        A2A_LIMIT_CALLER_STREAMS="9",
        A2A_LIMIT_CALLER_CALLS="8",
    )
    default, acme = found[""], found["acme"]
    assert [one.tenant for one in found] == ["", "acme"]
    assert (default.gate.open, acme.gate.open) == (True, False)
    assert (default.card.name, acme.card.name, acme.card.provider.organization) == ("red", "Acme", "Acme")
    assert default.agent is acme.agent
    assert acme.limits.max_message_bytes == 4096
    assert acme.limits.caller.rates == {"send": Rate(5, 5), "read": Rate(2, 30)}
    # What the file does not say is as the settings say; 0 lifts a limit.
    assert (acme.limits.caller.calls, acme.limits.caller.streams, acme.limits.caller.tasks) == (8, None, 7)
    assert (acme.limits.tenant.calls, acme.limits.tenant.streams) == (50, None)
    assert default.limits.caller.rates == {"follow": Rate(1, 1)}


def test_without_auth_a_tenant_has_that_of_the_settings(tmp_path: Path) -> None:
    text = f"""
        agents:
          one: {RED}
          two: {{agent: {RED}, auth: anonymous}}
        """
    found = hosts(tmp_path, text, A2A_API_KEYS=f"alice:{HEX}")
    assert [one.gate.open for one in found] == [False, True]


def test_all_problems_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        f"""\
        agents:
          acme:
            agent: nothere:agent
            card: {{nme: x, description: 3}}
            auth:
              jwt: {{issuer: x, audiance: b}}
            limits: {{caller: {{rates: {{sned: 5, read: {{rate: 0}}}}, callz: 3}}}}
          tasks: {RED}
          "a/b": {RED}
          1: {RED}
          open: {{agent: {RED}, auth: {{}}}}
          bare: {{card: {{name: x}}}}
          gone: nothere:agent
          empty: tests.tenants.agents:nothing
          half: {{agent: {RED}, auth: {{jwt: {{issuer: x, audience: y}}}}}}
          ours: {{agent: {RED}, card: {{skills: []
            , supportedInterfaces: [{{url: x}}]}}}}
          colour: {{agent: {RED}, color: red}}
        tenants: {{}}
        """,
    ) == [
        ", line 4: agents.acme.card.nme: nme: AgentCard has no such field; did you mean name?",
        ", line 4: agents.acme.card.description: description: must be text; write 3 in quotes",
        ", line 6: agents.acme.auth.jwt: audience is missing",
        ", line 6: agents.acme.auth.jwt.audiance: there is no such key here; did you mean audience?",
        ", line 7: agents.acme.limits.caller.rates.sned: the groups of operations are send, read, follow, change",
        ", line 7: agents.acme.limits.caller.rates.read.rate: should be greater than or equal to 0.00001",
        ", line 7: agents.acme.limits.caller.callz: there is no such key here; did you mean calls?",
        ", line 8: agents.tasks: no tenant can have this name: it begins the paths of callers that name none",
        (
            ", line 9: agents.a/b: a tenant is part of paths: up to 64 letters, digits and the characters . _ ~ -, the "
            'first a letter or a digit; "" is who names no tenant'
        ),
        ", line 10: agents.1: this key must be text; write it in quotes",
        (
            ", line 11: agents.open.auth: holds no scheme, which would let anybody in; if that is meant, write "
            "`auth: anonymous`"
        ),
        ", line 12: agents.bare: agent must name the agent as MODULE:ATTR",
        ", line 13: agents.gone.agent: 'nothere:agent': there is no module 'nothere' here or on the Python path",
        (
            ", line 14: agents.empty.agent: 'tests.tenants.agents:nothing': 'nothing' is nothing, not an Agent; the "
            "module has tests.tenants.agents:red, tests.tenants.agents:blue"
        ),
        ", line 15: agents.half.auth: nothing says where the keys of x are: a URL or a file",
        (
            ", line 16: agents.ours.card: supportedInterfaces cannot be given here: the addresses come from "
            "A2A_PUBLIC_GRPC_ADDR and A2A_PUBLIC_HTTP_URL"
        ),
        ", line 18: agents.colour.color: there is no such key here; there are agent, card, auth, limits",
        ", line 19: tenants: there is no such key here; did you mean agents?",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ", line 1: the file must hold `agents:`, and under it each tenant with its agent"),
        ("- a", ", line 1: the file must hold `agents:`, and under it each tenant with its agent"),
        ("\nagents: {}", ", line 2: agents: the file must hold `agents:`, and under it each tenant with its agent"),
        ("agents:\n  a: [", ", line 2: expected the node content, but found '<stream end>'"),
        ("agents: &a\n  x: *a", ": line 1: this holds itself"),
        (f"agents:\n  a: {RED}\n  a: {RED}", ", line 3: agents.a: stands here twice, in line 2 too"),
        ("agents:\n  a: 3", ", line 2: agents.a: must be MODULE:ATTR, or hold agent, card, auth and limits"),
        (f"agents:\n  a:\n    agent: {RED}\n    limits: {{tenant: {{tasks: 3}}}}",
         ", line 4: agents.a.limits.tenant.tasks: there is no such key here; there are rates, calls, streams"),
        (f"agents:\n  a:\n    agent: {RED}\n    auth: nobody",
         ", line 4: agents.a.auth: must be `anonymous`, or hold the schemes of authentication"),
        ("agents:\n  a: 2026-13-45", ", line 2: this is no timestamp; write it in quotes"),
        ("agents:\n\n  a: !!bool perhaps", ", line 3: this is no bool; write it in quotes"),
        ("agents:\n  a: !!int ''", ", line 2: this is no int; write it in quotes"),
        ("agents:\n  a: b\n  c: \x07", ", line 3: a character stands here that is no text in UTF-8"),
        ("agents: " + 3000 * "[", ": it is nested too deeply"),
        (f"agents:\n  a:\n    agent: {RED}\n    auth: {{mtls: san}}",
         ", line 4: agents.a.auth.mtls: no listener asks for a certificate; set A2A_TLS_CLIENT_CERT, or leave it out"),
        (f"agents:\n  a:\n    agent: {RED}\n    limits: {{caller: 3}}",
         ", line 4: agents.a.limits.caller: must hold keys with their values"),
        (f"agents:\n  a:\n    agent: {RED}\n    auth: {{oidc: {{issuer: 'https://a.b', audience: {{}}}}}}",
         ", line 4: agents.a.auth.oidc.audience: must be a list"),
        (f"agents:\n  a:\n    agent: {RED}\n    auth:\n      mtls: san\n      mtls_allow: []",
         ", line 6: agents.a.auth.mtls_allow: must not be empty"),
        (f"agents:\n  a:\n    agent: {RED}\n    auth:\n      mtls: san\n      mtls_allow: CN=alice",
         (", line 4: agents.a.auth: callers are known by alternative names (URI:…, DNS:…, email:…), and the list of "
          "those that are let in has CN=alice")),
        *((f"agents:\n  a:\n    agent: {RED}\n    auth: {{api_keys: {{keys: {{x: {HEX}}}, name: {name}}}}}",
           f", line 4: agents.a.auth: API keys cannot be sent as {name}: that name has a meaning of its own")
          for name in ("host", "grpc-timeout", "key-bin", "a2a-version")),
        (f"agents:\n  a: {{agent: {RED}, auth: {{api_keys: {{keys: {{alice: secret}}}}}}}}",
         (", line 2: agents.a.auth.api_keys.keys: the key of alice must be given as its SHA-256 in 64 hexadecimal "
          'digits: printf %s "$KEY" | sha256sum | cut -c1-64')),
    ],
)  # fmt: skip
def test_what_else_may_be_wrong(text: str, problem: str, tmp_path: Path) -> None:
    assert problems(tmp_path, text) == [problem]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"agents\.yaml cannot be read: No such file or directory"):
        host_many(load({}), str(tmp_path / "agents.yaml"))


def test_no_problem_repeats_a_secret(tmp_path: Path) -> None:
    """Somebody writes the key where its digest belongs."""
    text = f"agents:\n  a: {{agent: {RED}, auth: {{api_keys: {{keys: {{alice: my-secret}}}}, jwt: my-secret}}}}"
    assert not any("my-secret" in problem for problem in problems(tmp_path, text))


def test_files_are_named_from_where_the_file_is(tmp_path: Path) -> None:
    """The key set beside the file of agents; the service may have been started anywhere. This one is empty."""
    (tmp_path / "keys.json").write_text('{"keys": []}')
    auth = "{jwt: {issuer: x, audience: y, jwks_file: keys.json}}"
    (problem,) = problems(tmp_path, f"agents:\n  a: {{agent: {RED}, auth: {auth}}}")
    assert f"agents.a.auth: {tmp_path}/keys.json cannot be used as a JWK Set" in problem


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "agents.yaml"
    path.write_bytes(b"agents:\n  a: \xff\n")
    with pytest.raises(ValueError, match=r"agents\.yaml, line 2: a character stands here that is no text in UTF-8"):
        host_many(load({}), str(path))


def test_the_example_is_one() -> None:
    found = host_many(load({}), "examples/agents.yaml")
    assert [one.tenant for one in found] == ["", "acme", "globex"]


def test_every_operation_has_a_group() -> None:
    groups = {name: group_of(name) for name in rules.OPERATIONS}
    assert set(groups.values()) == set(GROUPS)
    assert {name for name, group in groups.items() if group == "send"} == {"SendMessage", "SendStreamingMessage"}
