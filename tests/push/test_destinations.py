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
from tests.support.receiver import receiver

STRICT = Destinations()
LOOSE = Destinations(http=True)

PRIVATE = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "224.0.1.1",
    "239.255.255.255", "240.0.0.1", "168.63.129.16", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "100::1",
    "2001:db8::1", "3fff::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
    "::8.8.8.8", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1",
    "2001:0:7f00:1::", "2001::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]

HOSTILE = [
    # Addresses that are not public, plainly written.
    *(f"https://{address}/" for address in PRIVATE if ":" not in address),
    *(f"https://[{address}]/" for address in PRIVATE if ":" in address),
    "https://localhost/", "https://LOCALHOST/", "https://sub.localhost:8443/",
    # The same in other spellings, and addresses that only some readers take for one.
    "https://2130706433/", "https://0x7f000001/", "https://017700000001/", "https://0177.0.0.1/", "https://0x7f.0.0.1/",
    "https://127.1/", "https://127.0.1/", "https://0/", "https://0x0/", "https://127.0.0.1./", "https://127.0.0.01/",
    "https://1.2.3.4.5/", "https://256.1.1.1/", "https://1.2.3/", "https://8.8.8.0x8/", "https://example.0x7f/",
    "https://[::ffff:8.8.8.8]/", "https://[::ffff:7f00:1]/", "https://[2606:4700::1%25eth0]/", "https://[8.8.8.8]/",
    "https://[::1/", "https://::1/", "https://[]/", "https://[2606:4700::1111]x/", "https://[[::1]]/",
    # Digits and dots that are none in ASCII.
    "https://①②⑦.⓪.⓪.①/", "https://127。0。0。1/", "https://\uff11\uff12\uff17.0.0.1/", "https://ⓛocalhost/", "https://ex\u00admple.com/",
    # Who is the host?
    "https://example.com@127.0.0.1/", "https://127.0.0.1@example.com/", "https://user:pass@example.com/", "https://@example.com/",
    "https://example.com\\@127.0.0.1/", "https://example.com\\.evil.com/", "https:\\\\example.com/", "https://example.com#@127.0.0.1/",
    "https://example.com/#fragment", "https://example.com#", "https:///example.com/", "https:/example.com/",
    "https:example.com",
    "https://", "https:///", "//example.com/", "example.com", "/hook", "", " ", "https://example.com:443:80/",
    "https://example.com:0/", "https://example.com:65536/", "https://example.com:-1/", "https://example.com:+80/",
    "https://example.com:0443/", "https://example.com:00/", "https://example.com:99999999999999999999/",
    "https://example.com:8o/", "https://example.com: 80/", "https://exam ple.com/", "https://example%2ecom/",
    "https://127%2e0%2e0%2e1/", "https://%6cocalhost/", "https://example.com%00.evil.com/", "https://example..com/",
    "https://.example.com/", "https://example.com./", "https://-example.com/", "https://example-.com/", "https://*/",
    f"https://{'a' * 64}.com/", f"https://{'a.' * 130}com/", "https://" + "a" * 3000,
    # Other schemes, and what breaks lines.
    "http://example.com/", "HTTP://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
    "javascript:alert(1)", "data:,x", "unix:///run/redis.sock", "redis://example.com/", "httpss://example.com/", "://example.com",
    "https://example.com/\r\nX-Evil: 1", "https://example.com/\n", "https://example.com\t/", "\thttps://example.com/",
    " https://example.com/", "https://example.com/ ", "https://example.com/ü", "https://example.com/a b", "https://example.com/\x00",
    "https://example.com/\x7f", "https://exa\rmple.com/",
]  # fmt: skip


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
    for url in HOSTILE:
        if url.startswith("https:"):
            with pytest.raises(RefusedDestinationError):
                LOOSE.read("http:" + url.removeprefix("https:"))
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


def _answering(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let each look-up give the next of `answers`; the names that were asked for."""
    asked: list[str] = []
    left = iter(answers)

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [
            (socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))
            for text in next(left)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


async def test_one_private_address_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    network = CheckedNetwork(LOOSE, connections=1)
    for found in (["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["8.8.8.8", "::1"], ["fe80::1%lo"], ["::ffff:127.0.0.1"]):
        _answering(monkeypatch, found)
        with pytest.raises(RefusedDestinationError):
            await network.connect_tcp("example.com", 80, timeout=1)
    network.close()


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
