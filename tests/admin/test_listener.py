"""The listener for administration: when it is there, what it refuses, and how the commands find it."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.admin.conftest import admin_addr, until
from tests.support.commands import Run
from tests.support.replica import ROOT, Pair, Replica

pytestmark = pytest.mark.wide

ADMIN = pytest.mark.agent("tests.admin.agent:agent", A2A_ADMIN_ADDR="127.0.0.1:0")
ON = "administration on "


@pytest.fixture
def replica() -> Iterator[Replica]:
    """One that is not started yet, without administration."""
    made = Replica(agent=None, redis_url=None, env={})
    yield made
    made.close()


def serve(**env: str) -> subprocess.CompletedProcess[str]:
    """`a2a-grpc serve` where it ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "a2a_grpc.command", "serve"],
        cwd=ROOT, env={"PATH": "", "A2A_GRPC_ADDR": "127.0.0.1:0", "A2A_HTTP_ADDR": "127.0.0.1:0", **env},
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("addr", ["0.0.0.0:50052", "[::]:50052", "10.1.2.3:50052", "agent.example.com:50052"])
def test_an_address_that_others_can_reach_is_refused_at_the_start(addr: str) -> None:
    done = serve(A2A_ADMIN_ADDR=addr)
    assert done.returncode == 2
    assert done.stderr == (
        f"a2a-grpc: A2A_ADMIN_ADDR is '{addr}', but whoever connects there may read, send again and erase the tasks of "
        "everybody, without credentials, so it must be an address of this machine alone, such as 127.0.0.1:50052. To "
        "reach it from elsewhere: kubectl exec, kubectl port-forward, or ssh -L 50052:127.0.0.1:50052.\n"
    )


def test_a_port_that_is_taken_is_named_with_its_variable(tmp_path: object) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = serve(
            A2A_ADMIN_ADDR=f"127.0.0.1:{port}",
            A2A_PUBLIC_GRPC_ADDR="agent.example.com:443",
            A2A_PUBLIC_HTTP_URL="https://agent.example.com",
            A2A_DATA_DIR=str(tmp_path),
        )
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: Address already in use. Set A2A_ADMIN_ADDR to an address" in done.stderr


def test_it_is_off_unless_it_is_wanted(replica: Replica, command: Run) -> None:
    replica.start()
    assert ON not in replica.log()
    refused = command("tasks", "list", "--admin", replica.grpc_addr)
    assert refused.code == 1
    assert refused.err == (
        "a2a-grpc: Method not found! (UNIMPLEMENTED)\n"
        f"{replica.grpc_addr} serves something else: --admin wants what A2A_ADMIN_ADDR is on the replica.\n"
    )


@pytest.mark.parametrize("argv", [["tasks", "list"], ["dead-letters", "list"], ["replicas"]])
def test_a_command_says_what_to_do_where_nobody_listens(command: Run, argv: list[str]) -> None:
    refused = command(*argv, "--admin", "127.0.0.1:1")
    assert (refused.code, refused.out) == (1, "")
    problem, advice = refused.err.splitlines()
    assert re.fullmatch(r"a2a-grpc: No connection to 127\.0\.0\.1:1: .*Connection refused\. \(UNAVAILABLE\)", problem)
    assert advice == (
        "Administration is off by default: set A2A_ADMIN_ADDR=127.0.0.1:1 on the replica and run this command there "
        "(kubectl exec), or give --admin the address of a tunnel (kubectl port-forward, ssh -L)."
    )


@ADMIN
def test_the_variable_names_the_replica_and_the_option_wins(
    command: Run, two_replicas: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (admin_addr(replica) for replica in two_replicas.replicas)
    monkeypatch.setenv("A2A_ADMIN_ADDR", one)
    assert command("replicas").code == 0
    monkeypatch.setenv("A2A_ADMIN_ADDR", "127.0.0.1:1")
    assert command("replicas").code == 1
    assert command("replicas", "--admin", two).code == 0
    monkeypatch.delenv("A2A_ADMIN_ADDR")
    assert "127.0.0.1:50052" in command("replicas").err + command("replicas", "--help").out


@ADMIN
def test_every_replica_lists_all(command: Run, two_replicas: Pair) -> None:
    asked = [command("replicas", "--json", "--admin", admin_addr(replica)) for replica in two_replicas.replicas]
    names = [[row["name"] for row in listed.json] for listed in asked]
    assert names[0] == names[1]
    assert len(names[0]) == 2
    for row in asked[0].json:
        assert set(row) == {"name", "startTime", "beatAge", "turns", "maxTurns", "version", "lost"}
        assert (row["turns"], row["maxTurns"], row["lost"]) == (0, 100, False)
        assert 0 <= float(row["beatAge"].removesuffix("s")) < 4
    table = command("replicas", "--admin", admin_addr(two_replicas.replicas[0])).lines
    assert table[0].split() == ["NAME", "STARTED", "HEARD", "OF", "TURNS", "VERSION"]
    assert re.fullmatch(rf"{re.escape(names[0][0])} +20\S+Z  \d\.\d s ago  0/100  \S+", table[1])


@ADMIN
def test_a_store_that_is_away_is_said_to_be(command: Run, two_replicas: Pair) -> None:
    admin = admin_addr(two_replicas.replicas[0])
    with two_replicas.store.frozen():
        for argv in (
            ["tasks", "list"],
            ["tasks", "events", "0" * 32 + "-0", "--follow"],
            ["dead-letters", "purge", "--all", "--yes"],
        ):
            refused = command(*argv, "--admin", admin)
            assert (refused.code, refused.out) == (1, "")
            assert refused.err == (
                "a2a-grpc: The task store does not answer at the moment; what was asked may have been done. "
                "(UNAVAILABLE)\n"
            )
    until(lambda: command("replicas", "--admin", admin).code == 0, "the store is back")


@pytest.mark.agent("tests.admin.agent:agent", A2A_ADMIN_ADDR="127.0.0.1:0", A2A_DRAIN_GRACE="0.2")
def test_a_stop_ends_those_that_follow(command: Run, two_replicas: Pair) -> None:
    """SIGTERM: their streams end with an error that says why, and the process ends in its time."""
    one, _ = two_replicas.replicas
    (answer,) = command("send", "-a", one.http_url, "hang", "--async", "-o", "json").json
    following = ["tasks", "events", answer["task"]["id"], "--follow", "--admin", admin_addr(one)]
    with subprocess.Popen(
        [sys.executable, "-m", "a2a_grpc.command", *following],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        one.terminate()
        _, err = process.communicate(timeout=40)
    assert process.returncode == 1
    assert err.endswith("(UNAVAILABLE)\n")
    assert one.wait(40) == 0
