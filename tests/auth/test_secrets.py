"""A service that has every kind of secret, and every kind of trouble with them, logs none."""

import contextlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from a2a_grpc.pb import a2a_pb2 as pb
from tests.auth.conftest import AGENT, API_KEYS, serving, trusting
from tests.auth.issuer import Issuer, private_key
from tests.conformance.callers import BINDINGS, CALLERS, KEYS, VERSION, CallError, say
from tests.support.leaks import MARKER, found, secret, secret_key
from tests.support.replica import Replica, free_ports
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until


async def test_no_secret_of_a_service_is_in_its_log(issuer: Issuer, tmp_path: Path) -> None:
    """Keys, tokens, cookies, webhooks and their tokens, passwords of the store, private keys; right ones and wrong."""
    password, key_file = secret("store"), tmp_path / "key.pem"
    key_file.write_bytes(private_key("EC").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    env = trusting(
        issuer,
        A2A_API_KEYS=API_KEYS,
        A2A_API_KEY_IN="cookie",
        A2A_API_KEY_NAME="key",
        A2A_ENCRYPTION_KEYS=f"{secret_key()},{secret_key()}",
        A2A_SIGNING_KEYS=str(key_file),
        A2A_PUSH_ALLOW="127.0.0.1",
        A2A_PUSH_ALLOW_HTTP="true",
        A2A_PUSH_ATTEMPTS="1",
        A2A_STORE_TIMEOUT="0.5",
    )
    (closed,) = free_ports(1)
    hook = pb.TaskPushNotificationConfig(url=f"http://127.0.0.1:{closed}/{secret('in-the-url')}", token=secret("token"))
    hook.authentication.CopyFrom(pb.AuthenticationInfo(scheme="Bearer", credentials=secret("credentials")))
    forged = issuer.token(key=private_key("EC"))
    with fresh_store_server() as store:
        store.client.config_set("requirepass", password)
        url = f"{store.url}?password="
        with serving(redis_url=url + password, **env) as service:
            for binding in BINDINGS:
                for credentials in (
                    {"authorization": f"Bearer {issuer.token()}"},
                    {"authorization": f"Bearer {forged}"},
                    {"authorization": secret("of-no-scheme"), "x-other": secret("in-a-header")},
                    {"cookie": f"key={KEYS['alice']}", "key": KEYS["alice"]},
                    {"cookie": f"key={secret('wrong')}", "key": secret("wrong")},
                ):
                    async with CALLERS[binding](service, {**VERSION, **credentials}) as caller:
                        with contextlib.suppress(CallError):
                            await caller.send(say("ask", task_push_notification_config=hook))
                        with contextlib.suppress(CallError):
                            hook.url = hook.url.replace("http:", "ftp:")
                            await caller.send(say("ask", task_push_notification_config=hook))
                        hook.url = hook.url.replace("ftp:", "http:")
            await wait_until(lambda: "is given up" in service.log(None), "a webhook is given up", 20)
            store.kill()
            await wait_until(lambda: "not ready" in service.log(), "the store is gone", 20)
            log = service.log(None)
        store.start()
    assert '"level":"debug"' in log
    assert MARKER not in log
    assert [leak for leak in found() if str(service._log_path) in leak] == []


@pytest.mark.parametrize("address", ["redis://:{}@127.0.0.1:{}/0", "rediss://user:{}@127.0.0.1:{}?ssl_password={}"])
async def test_a_store_that_is_not_there_is_named_without_its_password(address: str) -> None:
    (port,) = free_ports(1)
    url = address.format(secret("store"), port, secret("file"))
    service = Replica(agent=AGENT, redis_url=url, env={"A2A_LOG_LEVEL": "debug", "A2A_STORE_TIMEOUT": "0.5"})
    service.start(wait=False)
    try:
        await wait_until(lambda: str(port) in service.log() or not service.alive, "the store is missed", 20)
        assert MARKER not in service.log(None)
    finally:
        service.close()
