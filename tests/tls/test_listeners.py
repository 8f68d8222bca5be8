"""TLS on both listeners, with real sockets: versions, renewal, callers' certificates."""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio
import httpx
import pytest
import uvloop
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.auth.credentials import PeerCertificate
from a2a_grpc.server.bindings import http
from a2a_grpc.server.bindings.asgi.connection import ConnectionLimits
from a2a_grpc.server.bindings.asgi.listener import HttpListener, _bind
from a2a_grpc.server.tls import Asks, Certificates
from tests.bindings_grpc.scripted import Scripted, serving
from tests.support.certificates import HOUR, Authority, Files
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

GET = a2a_pb2.GetTaskRequest(id="t1")
HEADERS = {"a2a-version": "1.0"}


class Listening(NamedTuple):
    """Both listeners of one handler."""

    handler: Scripted
    grpc: str
    port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ports(self) -> dict[str, int]:
        return {"gRPC": int(self.grpc.rpartition(":")[2]), "HTTP": self.port}


@contextlib.asynccontextmanager
async def listening(files: Files, asks: Asks = "none", *, grpc_requires: bool = False) -> AsyncIterator[Listening]:
    handler = Scripted()
    certificates = Certificates(files.cert, files.key, files.client_ca, asks=asks)
    listener = HttpListener(http.create_app(handler), "127.0.0.1", 0, certificates=certificates)
    async with serving(handler, certificates=certificates, require_certificates=grpc_requires) as address:
        port = await listener.start()
        try:
            yield Listening(handler, address, port)
        finally:
            await listener.stop(0.0)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Files:
    return Files(tmp_path, authority.issue_server())


def trusting(
    authority: Authority, pair: tuple[bytes, bytes] | None = None, folder: Path | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if pair is not None:
        assert folder is not None
        both = folder / "client.pem"
        both.write_bytes(pair[0] + pair[1])
        context.load_cert_chain(both)
    return context


async def get(url: str, context: ssl.SSLContext) -> httpx.Response:
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        return await client.get(f"{url}/tasks/t1", headers=HEADERS)


async def call(address: str, authority: Authority, pair: tuple[bytes, bytes] | None = None) -> a2a_pb2.Task:
    chain, key = pair or (None, None)
    credentials = grpc.ssl_channel_credentials(authority.pem, key, chain)
    async with grpc.aio.secure_channel(address, credentials) as channel:
        return await A2AServiceStub(channel).GetTask(GET, timeout=10)


async def shake(port: int, context: ssl.SSLContext) -> tuple[ssl.SSLObject, bytes]:
    """The outcome of one handshake: what was agreed, and the certificate of the server."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
    shown = tls.getpeercert(binary_form=True)
    writer.close()
    assert shown is not None
    return tls, shown


async def shown(port: int, authority: Authority, pair: tuple[bytes, bytes]) -> None:
    """Wait until the listener shows the certificate of `pair`."""
    await shown_to(port, trusting(authority), pair)


async def shown_to(port: int, context: ssl.SSLContext, pair: tuple[bytes, bytes]) -> None:
    """The same, to a client with `context`."""

    async def renewed() -> bool:
        return (await shake(port, context))[1] == der(pair)

    await wait_until(renewed, "the new certificate is shown")


def der(pair: tuple[bytes, bytes]) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair[0].decode())


@pytest.mark.parametrize("kind", ["ec", "rsa"])
async def test_calls_over_tls(authority: Authority, tmp_path: Path, kind: str) -> None:
    files = Files(tmp_path, authority.issue_server(kind=kind))
    async with listening(files) as both:
        assert await call(both.grpc, authority) == a2a_pb2.Task()
        response = await get(both.url, trusting(authority))
    assert response.status_code == 200
    assert response.headers["strict-transport-security"] == "max-age=31536000"
    assert [found.binding for found in both.handler.calls] == ["GRPC", "HTTP+JSON"]
    assert [found.credentials.certificate for found in both.handler.calls] == [None, None]


START = b"POST /message:send HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize("tls", [True, False], ids=["TLS", "plain"])
@pytest.mark.parametrize(
    ("status", "request_bytes", "limits"),
    [
        (200, b"GET /tasks/t1?A2A-Version=1.0 HTTP/1.1\r\nhost: x\r\n\r\n", ConnectionLimits()),
        (404, b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n", ConnectionLimits()),
        (400, b"this is not HTTP\r\n\r\n", ConnectionLimits()),
        (408, START + b"content-length: 2\r\n\r\n{", ConnectionLimits(body_timeout=0.1)),
        (431, START + b"x: " + b"y" * 2000, ConnectionLimits(head_bytes=1000)),
        (503, b"", ConnectionLimits(connections=0)),
    ],
    ids=["200", "404", "400", "408", "431", "503"],
)
async def test_every_answer_has_hsts_and_plain_ones_have_none(
    status: int, request_bytes: bytes, limits: ConnectionLimits, tls: bool, files: Files, authority: Authority
) -> None:
    """RFC 6797, 7.1 and 7.2; and each says when it was (RFC 9110, 6.6.1)."""
    certificates = Certificates(files.cert, files.key, asks="none") if tls else None
    listener = HttpListener(http.create_app(Scripted()), "127.0.0.1", 0, limits=limits, certificates=certificates)
    port = await listener.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority) if tls else None)
        writer.write(request_bytes)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.close()
    finally:
        await listener.stop(0.0)
    found = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:-1])
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert found.get("strict-transport-security") == ("max-age=31536000" if tls else None)
    assert found["date"].endswith(" gmt")
    assert ("retry-after" in found) == (status == 503)


@pytest.mark.parametrize("listener", ["gRPC", "HTTP"])
async def test_tls_1_3_is_offered_1_2_is_the_least(files: Files, authority: Authority, listener: str) -> None:
    async with listening(files) as both:
        port = both.ports[listener]

        async def agreed(least: ssl.TLSVersion, most: ssl.TLSVersion) -> str | None:
            context = trusting(authority)
            context.set_alpn_protocols(["h2", "http/1.1"])
            context.set_ciphers("ALL:@SECLEVEL=0")  # the client would speak what is old
            context.minimum_version, context.maximum_version = least, most
            tls, _ = await shake(port, context)
            assert tls.selected_alpn_protocol() == ("h2" if listener == "gRPC" else "http/1.1")
            return tls.version()

        version = ssl.TLSVersion
        assert await agreed(version.TLSv1_2, version.TLSv1_3) == "TLSv1.3"
        assert await agreed(version.TLSv1_2, version.TLSv1_2) == "TLSv1.2"
        for old in ("TLSv1_1", "TLSv1"):
            with pytest.warns(DeprecationWarning, match="deprecated"), pytest.raises((ssl.SSLError, ConnectionError)):
                await agreed(version[old], version[old])


@pytest.mark.parametrize("listener", ["gRPC", "HTTP"])
async def test_weak_ciphers_are_refused(files: Files, authority: Authority, listener: str) -> None:
    async with listening(files) as both:
        for weak in (
            "AES128-SHA",
            "AES256-GCM-SHA384",
            "ECDHE-ECDSA-AES128-SHA",
            "ECDHE-ECDSA-AES256-SHA384",
            "NULL:@SECLEVEL=0",
        ):
            context = trusting(authority)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(weak)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await shake(both.ports[listener], context)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_first_request_may_come_with_the_end_of_the_handshake(
    files: Files, authority: Authority, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """In TLS 1.3 the client speaks first: its request travels with its last message of the handshake."""

    async def run() -> None:
        async with listening(files) as both:
            tls = trusting(authority)
            for _ in range(30):
                into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
                client = tls.wrap_bio(into, out, server_hostname="127.0.0.1")
                reader, writer = await asyncio.open_connection("127.0.0.1", both.port)
                with contextlib.suppress(ssl.SSLWantReadError):
                    client.do_handshake()
                writer.write(out.read())
                while True:
                    into.write(await reader.read(65_536))
                    try:
                        client.do_handshake()
                    except ssl.SSLWantReadError:
                        continue
                    break
                client.write(b"GET /tasks/t1?A2A-Version=1.0 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                writer.write(out.read())  # Finished and the request at once
                answer = b""
                while b"HTTP/1.1" not in answer:
                    received = await reader.read(65_536)
                    assert received, "closed without an answer"
                    into.write(received)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        answer += client.read(65_536)
                assert answer.startswith(b"HTTP/1.1 200"), answer
                writer.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(run(), 30))


async def test_plain_text_to_a_tls_port_ends_at_once(files: Files) -> None:
    async with asyncio.timeout(5), listening(files) as both:
        for port in both.ports.values():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /tasks/t1 HTTP/1.1\r\nhost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"200" not in await reader.read()
            writer.close()
    assert both.handler.calls == []


async def test_stopping_does_not_wait_for_handshakes(files: Files) -> None:
    async with asyncio.timeout(5):
        async with listening(files) as both:
            connections = [await asyncio.open_connection("127.0.0.1", both.port) for _ in range(3)]
        for _, writer in connections:
            writer.close()


# -- renewal -----------------------------------------------------------------------------------------------------------


async def test_a_renewed_certificate_is_used_for_the_next_connection_and_old_ones_go_on(
    files: Files, authority: Authority
) -> None:
    async with listening(files) as both:
        credentials = grpc.ssl_channel_credentials(authority.pem)
        async with (
            grpc.aio.secure_channel(both.grpc, credentials) as channel,
            httpx.AsyncClient(verify=trusting(authority), trust_env=False) as client,
        ):
            stub = A2AServiceStub(channel)
            await stub.GetTask(GET)
            await client.get(f"{both.url}/tasks/t1", headers=HEADERS)
            peers = {found.peer for found in both.handler.calls}
            for kind in ("rsa", "ec"):  # another kind of key replaces the old one too
                renewed = authority.issue_server(kind=kind)
                files.write(renewed)
                for port in both.ports.values():
                    await shown(port, authority, renewed)
                await stub.GetTask(GET)
                assert (await client.get(f"{both.url}/tasks/t1", headers=HEADERS)).status_code == 200
            assert {found.peer for found in both.handler.calls} == peers  # the connections of before


@pytest.mark.parametrize("broken", ["no certificate", "another key", "half", "missing", "password"])
async def test_a_broken_file_keeps_the_old_pair_and_is_told(
    files: Files, authority: Authority, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, other = files.cert.read_bytes(), authority.issue_server()
    async with listening(files) as both:
        if broken == "no certificate":
            files.cert.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        elif broken == "another key":
            files.key.write_bytes(other[1])
        elif broken == "half":
            files.cert.write_bytes(before[: len(before) // 2])
        elif broken == "missing":
            files.cert.unlink()
        else:
            files.key.write_bytes(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGj\n-----END ENCRYPTED PRIVATE KEY-----\n")
        with caplog.at_level(logging.ERROR):
            await wait_until(lambda: caplog.records, "the log says what is wrong")
            for port in both.ports.values():
                for _ in range(2):
                    _, found = await shake(port, trusting(authority))
                    assert found == der((before, b""))
        told = [record.getMessage() for record in caplog.records if record.name == "a2a_grpc.server.tls"]
        assert len(told) == 1 and told[0].startswith("the TLS certificate in use stays the old one: A2A_TLS_"), told
        assert b"PRIVATE" not in caplog.text.encode()
        files.write(other)
        for port in both.ports.values():
            await shown(port, authority, other)


def test_files_that_are_no_good_at_start_are_refused(files: Files, authority: Authority) -> None:
    good = files.cert.read_bytes(), files.key.read_bytes()
    files.key.write_bytes(authority.issue_server()[1])
    with pytest.raises(ValueError, match=r"A2A_TLS_KEY_FILE names .* must hold the private key of the certificate"):
        Certificates(files.cert, files.key, asks="none")
    files.write((b"nothing", good[1]))
    with pytest.raises(ValueError, match=r"A2A_TLS_CERT_FILE names .* must hold a certificate in PEM form"):
        Certificates(files.cert, files.key, asks="none")
    files.write(good)
    with pytest.raises(ValueError, match=r"A2A_TLS_CLIENT_CA_FILE names .*, which cannot be read"):
        Certificates(files.cert, files.key, files.cert.parent / "none", asks="required")
    with pytest.raises(ValueError, match=r"A2A_TLS_CLIENT_CA_FILE names .* certificates of authorities"):
        Certificates(files.cert, files.key, files.key, asks="required")


def test_a_certificate_that_has_expired_is_told(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Files(tmp_path, authority.issue_server(valid_for=-HOUR))
    Certificates(files.cert, files.key, asks="none")
    assert "has expired" in caplog.text


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_renewal_that_fails_is_tried_again(
    files: Files, authority: Authority, failures: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process may have no file descriptor left for a moment."""
    renewed, left = authority.issue_server(), failures

    def dup(listening: socket.socket) -> socket.socket:
        nonlocal left
        if left:
            left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return real(listening)

    async with listening(files) as both:
        real = socket.socket.dup
        monkeypatch.setattr(socket.socket, "dup", dup)
        files.write(renewed)
        await wait_until(lambda: "Too many open files" in caplog.text, "the log says why")
        await shown(both.port, authority, renewed)
    assert caplog.text.count("the new TLS certificate is not in use yet") == failures


@pytest.mark.parametrize("which", [0, 1])
async def test_a_listener_that_cannot_renew_closes_its_port(
    which: int, files: Files, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it has two addresses, and the first has its new server already."""
    certificates = Certificates(files.cert, files.key, None, asks="none")
    listener = HttpListener(http.create_app(Scripted()), "127.0.0.1", 0, certificates=certificates)
    port = await listener.start()
    try:
        listener._sockets += _bind("127.0.0.1", 0, shared=False)
        failing, real = listener._sockets[which], socket.socket.dup

        def dup(one: socket.socket) -> socket.socket:
            if one is failing:
                raise OSError(errno.EMFILE, "Too many open files")
            return real(one)

        monkeypatch.setattr(socket.socket, "dup", dup)
        files.write(authority.issue_server())
        await wait_until(lambda: "Too many open files" in caplog.text, "the log says why")
    finally:
        await listener.stop(0.0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_renewal_under_load_fails_no_call(files: Files, authority: Authority) -> None:
    async with listening(files) as both:
        ended, done = asyncio.Event(), dict.fromkeys(("grpc", "http", "kept"), 0)
        context = trusting(authority)

        async def new_grpc() -> None:
            while not ended.is_set():
                credentials = grpc.ssl_channel_credentials(authority.pem)
                options = (("grpc.use_local_subchannel_pool", 1),)
                async with grpc.aio.secure_channel(both.grpc, credentials, options) as channel:
                    await A2AServiceStub(channel).GetTask(GET, timeout=10)
                done["grpc"] += 1

        async def new_http() -> None:
            while not ended.is_set():
                assert (await get(both.url, context)).status_code == 200
                done["http"] += 1

        async def kept() -> None:
            async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                while not ended.is_set():
                    response = await client.get(f"{both.url}/tasks/t1", headers=HEADERS)
                    assert response.status_code == 200
                    done["kept"] += 1

        callers = [asyncio.create_task(one()) for one in (new_grpc, new_http, kept)]
        pairs = [authority.issue_server() for _ in range(10)]
        try:
            async with asyncio.timeout(30):
                for pair in pairs:
                    before = dict(done)
                    files.write(pair)
                    while any(done[name] < before[name] + 3 for name in done):
                        assert not any(caller.done() for caller in callers), [
                            c.exception() for c in callers if c.done()
                        ]
                        await asyncio.sleep(0.01)
        finally:
            ended.set()
            await asyncio.gather(*callers)
        for port in both.ports.values():
            await shown(port, authority, pairs[-1])


# -- callers' certificates ---------------------------------------------------------------------------------------------

SPIFFE = x509.UniformResourceIdentifier("spiffe://example.org/agent/a")


@pytest.fixture
def mutual(authority: Authority, tmp_path: Path) -> Files:
    return Files(tmp_path, authority.issue_server(), authority.pem)


async def test_the_certificate_of_a_caller_reaches_the_call(
    mutual: Files, authority: Authority, tmp_path: Path
) -> None:
    pair = authority.issue("agent-a", [SPIFFE, x509.DNSName("a.example.org")])
    async with listening(mutual, "required", grpc_requires=True) as both:
        await call(both.grpc, authority, pair)
        assert (await get(both.url, trusting(authority, pair, tmp_path))).status_code == 200
    seen = [found.credentials.certificate for found in both.handler.calls]
    assert (
        seen[0]
        == seen[1]
        == PeerCertificate(
            subject="CN=agent-a",
            names=("URI:spiffe://example.org/agent/a", "DNS:a.example.org"),
            fingerprint=seen[0].fingerprint if seen[0] else "",
        )
    )
    assert seen[0] is not None and len(seen[0].fingerprint) == 43


async def strangers(authority: Authority) -> list[tuple[bytes, bytes] | None]:
    """Nobody; others whose certificate is of another authority, or over, or for servers, or short of a link."""
    return [
        None,
        Authority().issue("agent-a", [SPIFFE]),
        authority.issue("agent-a", [SPIFFE], valid_for=-HOUR),
        authority.issue("agent-a", [SPIFFE], usage=ExtendedKeyUsageOID.SERVER_AUTH),
        Authority("Between", above=authority).issue("agent-a", [SPIFFE]),
    ]


async def test_strangers_are_turned_away_in_the_handshake(mutual: Files, authority: Authority, tmp_path: Path) -> None:
    async with listening(mutual, "required", grpc_requires=True) as both:
        for pair in await strangers(authority):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(both.grpc, authority, pair)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            with pytest.raises(httpx.TransportError):
                await get(both.url, trusting(authority, pair, tmp_path))
    assert both.handler.calls == []


async def test_where_certificates_are_optional_strangers_have_none(
    mutual: Files, authority: Authority, tmp_path: Path
) -> None:
    """Over HTTP one may have none, but not a bad one; gRPC asks for none here."""
    nobody, *bad = await strangers(authority)
    async with listening(mutual, "optional") as both:
        assert (await get(both.url, trusting(authority, nobody, tmp_path))).status_code == 200
        pair = authority.issue("agent-a", [SPIFFE])
        assert (await get(both.url, trusting(authority, pair, tmp_path))).status_code == 200
        for stranger in bad:
            with pytest.raises(httpx.TransportError):
                await get(both.url, trusting(authority, stranger, tmp_path))
        await call(both.grpc, authority, pair)
    seen = [found.credentials.certificate for found in both.handler.calls]
    assert [certificate and certificate.subject for certificate in seen] == [None, "CN=agent-a", None]


async def test_a_caller_may_show_the_authorities_between(mutual: Files, authority: Authority, tmp_path: Path) -> None:
    between = Authority("Between", above=authority)
    chain, key = between.issue("agent-a", [SPIFFE])
    pair = chain + between.pem, key
    async with listening(mutual, "required", grpc_requires=True) as both:
        await call(both.grpc, authority, pair)
        assert (await get(both.url, trusting(authority, pair, tmp_path))).status_code == 200
    seen = [found.credentials.certificate for found in both.handler.calls]
    assert [certificate and certificate.subject for certificate in seen] == ["CN=agent-a"] * 2


async def test_http_asks_nobody_where_grpc_alone_is_to_ask(mutual: Files, authority: Authority, tmp_path: Path) -> None:
    _, stranger, *_ = await strangers(authority)
    async with listening(mutual, "none", grpc_requires=True) as both:
        assert (await get(both.url, trusting(authority, stranger, tmp_path))).status_code == 200
        await call(both.grpc, authority, authority.issue("agent-a", [SPIFFE]))
    seen = [found.credentials.certificate for found in both.handler.calls]
    assert [certificate and certificate.subject for certificate in seen] == [None, "CN=agent-a"]


async def until_refused(url: str, context: ssl.SSLContext) -> None:
    while True:
        await get(url, context)


async def test_an_authority_that_is_taken_out_is_trusted_no_longer(
    mutual: Files, authority: Authority, tmp_path: Path
) -> None:
    """Also not by a session that is resumed."""
    pair, other = authority.issue("agent-a", [SPIFFE]), Authority("other")
    context = trusting(authority, pair, tmp_path)
    assert mutual.client_ca is not None
    async with listening(mutual, "required", grpc_requires=True) as both:
        assert (await get(both.url, context)).status_code == 200
        await call(both.grpc, authority, pair)
        mutual.client_ca.write_bytes(other.pem)
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(until_refused(both.url, context), 10)
        with pytest.raises(grpc.aio.AioRpcError):
            await call(both.grpc, authority, pair)
        new = other.issue("agent-b")
        assert (await get(both.url, trusting(authority, new, tmp_path))).status_code == 200
        await call(both.grpc, authority, new)


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_of_before_is_not_resumed(
    mutual: Files, authority: Authority, tmp_path: Path, most: ssl.TLSVersion
) -> None:
    """It would bring the caller's certificate along without another look at the authorities."""
    context = trusting(authority, authority.issue("agent-a", [SPIFFE]), tmp_path)
    context.maximum_version = most

    def connect(port: int, session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as tls,
        ):
            tls.sendall(b"GET /tasks/t1?A2A-Version=1.0 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            while tls.recv(65_536):
                pass
            return tls.session_reused, tls.session

    async with listening(mutual, "required") as both:
        _, session = await asyncio.to_thread(connect, both.port, None)
        assert mutual.client_ca is not None
        renewed = authority.issue_server()
        mutual.write(renewed)
        await shown_to(both.port, context, renewed)
        reused, _ = await asyncio.to_thread(connect, both.port, session)
    assert not reused
