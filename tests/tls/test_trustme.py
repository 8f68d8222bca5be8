"""Service and client with certificates that others have made: by trustme, with an authority between root and leaf."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from a2a_grpc.client import A2AClient, ClientCertificate, TaskNotFoundError, UnavailableError, message
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2 as pb
from tests.support.certificates import Files
from tests.support.secure import SecureReplica, serving

pytestmark = pytest.mark.wide

SEND = pb.SendMessageRequest(message=message("hello"))


class Authority:
    """A root that is trusted, and what signs for it; the certificates bring the latter along."""

    def __init__(self, folder: Path) -> None:
        self._root = trustme.CA()
        self._between = self._root.create_child_ca()
        self.pem = self._root.cert_pem.bytes()
        self.path = folder / "root.pem"
        self.path.write_bytes(self.pem)
        self._folder = folder

    def issue(self, *names: str) -> tuple[bytes, bytes]:
        """A chain and its key, as PEM."""
        made = self._between.issue_cert(*names)
        return b"".join(one.bytes() for one in made.cert_chain_pems), made.private_key_pem.bytes()

    def caller(self, name: str) -> ClientCertificate:
        """Somebody who is known by an address for mail."""
        own = self._folder / f"{name}-{len(list(self._folder.iterdir()))}"
        own.mkdir()
        files = Files(own, self.issue(name))
        return ClientCertificate(files.cert, files.key)


class Place(NamedTuple):
    service: SecureReplica
    authority: Authority
    alice: ClientCertificate
    bob: ClientCertificate


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Over gRPC everybody needs a certificate; over HTTP it is asked for, and only calls need it."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    files = Files(tmp_path_factory.mktemp("server"), authority.issue("127.0.0.1", "localhost"), authority.pem)
    asks = {"A2A_TLS_CLIENT_CERT": "optional", "A2A_TLS_GRPC_CLIENT_CERT": "required", "A2A_MTLS": "san"}
    with serving("tests.process.echo_agent:agent", files, authority, **asks) as service:
        yield Place(service, authority, authority.caller("alice@example.org"), authority.caller("bob@example.org"))


async def connected(place: Place, binding: str, shown: ClientCertificate | None, ca_file: Path) -> A2AClient:
    return await A2AClient.connect(place.service.http_url, bindings=[binding], credentials=shown, ca_file=ca_file)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_holder_of_a_certificate_is_the_caller(binding: str, place: Place) -> None:
    """RFC 5280, 4.2.1.6: known by the alternative name, which a renewed certificate has too, over every binding."""
    renewed = place.authority.caller("alice@example.org")
    async with await connected(place, binding, place.alice, place.authority.path) as alice:
        task = (await alice.send_message(SEND)).task
    for other in BINDINGS:
        async with await connected(place, other, renewed, place.authority.path) as alice:
            assert (await alice.get_task(pb.GetTaskRequest(id=task.id))).id == task.id
        async with await connected(place, other, place.bob, place.authority.path) as bob:
            with pytest.raises(TaskNotFoundError):
                await bob.get_task(pb.GetTaskRequest(id=task.id))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_nobody_speaks_with_who_is_of_another_authority(binding: str, place: Place, tmp_path: Path) -> None:
    """Neither the service with such a caller, nor the client with such a service. The card is known from before."""
    async with await connected(place, binding, place.alice, place.authority.path) as client:
        card = client.card
    assert card is not None
    stranger = Authority(tmp_path)
    for shown, trusted in (
        (stranger.caller("alice@example.org"), place.authority.path),
        (place.alice, stranger.path),
    ):
        with pytest.raises(UnavailableError):
            async with await A2AClient.connect(
                card, bindings=[binding], credentials=shown, ca_file=trusted, patience=0
            ) as client:
                await client.send_message(SEND)
