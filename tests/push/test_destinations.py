"""Where webhooks may lead: every trick that is known to make a service call where it should not (13.2)."""

import asyncio
import socket
import threading
from collections import Counter
from ipaddress import ip_address
from typing import Any

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.server.push.allowed import parse_allowed
from a2a_grpc.server.push.destinations import Destinations, RefusedDestinationError, is_public
from a2a_grpc.server.push.network import CheckedNetwork
from tests.push.hostile import HOSTILE, PLAIN, PRIVATE, answers, main, refused, refused_when_looked_up
from tests.support.receiver import receiver

STRICT = Destinations()
LOOSE = Destinations(http=True)

PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_that_are(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("url", HOSTILE, ids=range(len(HOSTILE)))
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(RefusedDestinationError):
        STRICT.read(url)


def test_plain_http_changes_nothing_but_the_scheme() -> None:
    assert refused(PLAIN, LOOSE) == len(PLAIN)
    assert LOOSE.read("http://example.com").origin == "http://example.com"


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://example.com", "https://example.com", "/"),
        ("https://example.com?x=1", "https://example.com", "/?x=1"),
        ("HTTPS://Example.COM:443/A?b=%20c&d", "https://example.com", "/A?b=%20c&d"),
        ("https://example.com:8443/a//b/../c;d", "https://example.com:8443", "/a//b/../c;d"),
        ("https://example.com:/x", "https://example.com", "/x"),
        ("https://8.8.8.8:80/", "https://8.8.8.8:80", "/"),
        ("https://[2606:4700:4700:0::1111]/", "https://[2606:4700:4700::1111]", "/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example", "/"),
        ("https://a_b.example.com/", "https://a_b.example.com", "/"),
        ("https://1.example.com/", "https://1.example.com", "/"),
    ],
)
def test_urls_that_are_taken(url: str, origin: str, target: str) -> None:
    found = STRICT.read(url)
    assert (found.origin, found.target) == (origin, target)


@given(st.text() | st.from_regex(r"https?://[\w.:@\[\]%-]*(/\S*)?", fullmatch=True))
def test_whatever_is_sent_is_read_or_refused(url: str) -> None:
    """And what is read says the same again when it is put together."""
    try:
        found = LOOSE.read(url)
    except RefusedDestinationError:
        return
    assert LOOSE.read(found.origin + found.target) == found
    assert found.host.isascii() and "@" not in found.host


def test_what_is_allowed_is_allowed_by_name_or_by_address() -> None:
    some = Destinations(allowed=parse_allowed("hooks.internal, *.svc.cluster.local,10.1.0.0/16,fd00::/8"))
    private = ip_address("10.9.9.9")
    some.check("hooks.internal", private)
    some.check("a.b.svc.cluster.local", private)
    some.check("anything", ip_address("10.1.2.3"))
    some.read("https://10.1.2.3/")
    some.read("https://[fd00::1]/")
    for host in ("svc.cluster.local", "xsvc.cluster.local", "hooks.internal.evil.com", "evil-hooks.internal", "other"):
        with pytest.raises(RefusedDestinationError):
            some.check(host, private)
    for url in ("https://10.2.0.1/", "https://localhost/"):
        with pytest.raises(RefusedDestinationError):
            some.read(url)


def _answering(monkeypatch: pytest.MonkeyPatch, *found: list[str]) -> list[str]:
    """Let each look-up give the next of `found`; the names that were asked for."""
    asked: list[str] = []
    left = iter(found)

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return list(answers(*next(left))(host, port))

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


async def test_one_private_address_is_enough_to_refuse() -> None:
    for beside in ((), ("8.8.8.8",), ("8.8.8.8", "2606:4700:4700::1111")):
        assert await refused_when_looked_up(*beside) == len(PRIVATE)


def test_what_is_tried_is_counted_once() -> None:
    """The count is a figure: `python -m tests.push.hostile`."""
    assert len(set(HOSTILE)) == len(HOSTILE)
    assert len({ip_address(address) for address in PRIVATE}) == len(PRIVATE)
    assert main() == 0


async def test_a_name_is_looked_up_once_and_the_address_that_was_checked_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rebinding: the second answer would lead elsewhere, and nobody asks for it."""
    async with receiver(host="127.0.0.1") as hook:
        allowed = Destinations(allowed=parse_allowed("127.0.0.1"), http=True)
        network = CheckedNetwork(allowed, connections=1)
        asked = _answering(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        stream = await network.connect_tcp("rebinding.example.com", hook.port, timeout=1)
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        assert asked == ["rebinding.example.com"]
        await stream.aclose()
        with pytest.raises(RefusedDestinationError, match=r"leads to 127\.0\.0\.2"):
            await network.connect_tcp("rebinding.example.com", hook.port, timeout=1)
        network.close()


async def test_another_address_is_tried_where_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiver(host="127.0.0.1") as hook:
        network = CheckedNetwork(Destinations(allowed=parse_allowed("127.0.0.0/8"), http=True), connections=1)
        _answering(monkeypatch, ["127.0.0.9", "127.0.0.1"])
        stream = await network.connect_tcp("example.com", hook.port, timeout=1)
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        await stream.aclose()
        network.close()


async def test_name_servers_that_do_not_answer_delay_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks up the same name waits for the same answer, and each name that hangs takes one thread at most."""
    hanging = threading.Event()
    asked: Counter[str] = Counter()

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked[host] += 1
        if host.endswith("tarpit.example"):
            hanging.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    allowed = Destinations(allowed=parse_allowed("127.0.0.1"), http=True)
    async with receiver() as hook:
        network = CheckedNetwork(allowed, connections=20)

        async def connect(host: str, timeout: float) -> None:
            async with asyncio.timeout(timeout):
                stream = await network.connect_tcp(host, hook.port)
            await stream.aclose()

        for _ in range(2):
            lost = await asyncio.gather(
                *(connect(f"{number % 15}.tarpit.example", 0.2) for number in range(60)), return_exceptions=True
            )
            assert {type(one) for one in lost} == {TimeoutError}
        await connect("healthy.example", 5)
        assert asked.total() == 16
        # An answer that comes late is one for those who ask meanwhile.
        late = asyncio.create_task(connect("1.tarpit.example", 5))
        await asyncio.sleep(0)
        hanging.set()
        await late
        assert asked["1.tarpit.example"] == 1
        network.close()


async def test_a_name_without_an_address_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    network = CheckedNetwork(LOOSE, connections=1)

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(httpcore.ConnectError, match="cannot be resolved"):
        await network.connect_tcp("nowhere.invalid", 80, timeout=1)
    network.close()
    await asyncio.sleep(0)
