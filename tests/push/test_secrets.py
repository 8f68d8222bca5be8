"""Credentials of webhooks: encrypted in the store, and in no log, no error and no dead letter (13.2)."""

import asyncio
import os
from typing import Any, cast

import pytest
import redis

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.push.sealing import SealedError, Sealer
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.webhooks import Webhooks
from tests.conformance.callers import KEYS, VERSION, CallError, GrpcCaller, say
from tests.conformance.conftest import API_KEYS
from tests.push.config import AGENT, QUICK, config, create, get
from tests.support.leaks import secret, secret_key
from tests.support.receiver import Answer, Delivery, Receiver
from tests.support.replica import PairPool, replica
from tests.support.servers import StoreServer

SECRETS = (secret("credentials"), secret("token"), secret("in-the-url"))
NEW, OLD = secret_key(), secret_key()


def laden(hook: Receiver, **fields: Any) -> pb.TaskPushNotificationConfig:
    """A webhook that is full of secrets."""
    authentication = pb.AuthenticationInfo(scheme="Bearer", credentials=SECRETS[0])
    return config(hook, f"/{SECRETS[2]}", token=SECRETS[1], authentication=authentication, **fields)


def contents(client: redis.Redis) -> bytes:
    """Everything that a store holds."""
    found: list[object] = []
    for key in cast("list[bytes]", client.keys("*")):
        match cast("bytes", client.type(key)):
            case b"hash":
                found.append(client.hgetall(key))
            case b"stream":
                found.append(client.xrange(key))
            case b"zset":
                found.append(client.zrange(key, 0, -1))
            case b"string":
                found.append(client.get(key))
            case b"set":
                found.append(client.smembers(key))
    return repr(found).encode()


def test_what_is_sealed_can_be_opened_by_those_who_have_the_key() -> None:
    new, old = os.urandom(32), os.urandom(32)
    by_old, by_both, by_new = Sealer([old]), Sealer([new, old]), Sealer([new])
    sealed = by_old.seal(b"content", "a")
    assert b"content" not in sealed
    assert by_both.open(sealed, "a") == b"content"
    assert by_new.open(by_both.seal(b"content", "a"), "a") == b"content"
    assert by_new.open(Sealer().seal(b"content", "a"), "a") == b"content", "stored before there was a key"
    for opener, text, place in (
        (by_new, sealed, "a"),
        (Sealer(), sealed, "a"),
        (by_old, sealed, "b"),
        (by_old, sealed[:-1] + bytes([sealed[-1] ^ 1]), "a"),
        (by_old, sealed[:12], "a"),
        (by_old, b"", "a"),
        (by_old, b"\x02content", "a"),
    ):
        with pytest.raises(SealedError):
            opener.open(text, place)


@pytest.mark.parametrize(
    ("scope", "config_id"),
    [(Scope("acme", "bob"), "mine"), (Scope("other", "alice"), "mine"), (Scope("acme", "alice"), "yours")],
)
def test_a_sealed_config_is_bound_to_tenant_owner_and_id(scope: Scope, config_id: str) -> None:
    class Unasked:
        """No store is needed for it."""

    configs = PushConfigs(cast("Webhooks", Unasked()), Sealer([os.urandom(32)]), limit=1)
    whose = Scope("acme", "alice")
    packed = configs.pack(pb.TaskPushNotificationConfig(id="mine", url="https://hooks.example.com/", token="t"), whose)
    opened = configs.unpack(packed.content, whose, "task", "mine")
    assert opened == pb.TaskPushNotificationConfig(
        id="mine", task_id="task", url="https://hooks.example.com/", token="t"
    )
    with pytest.raises(SealedError):
        configs.unpack(packed.content, scope, "task", config_id)


async def test_a_config_that_was_moved_to_another_owner_in_the_store_is_not_opened(
    one_store_server: StoreServer, hook: Receiver
) -> None:
    """Whoever can write to the store reads no credentials by it, and sends none elsewhere."""
    env = {**QUICK, "A2A_ENCRYPTION_KEYS": NEW, "A2A_API_KEYS": API_KEYS}
    async with replica(agent=AGENT, redis_url=one_store_server.url, env=env) as service:
        ids = []
        for name in ("alice", "bob"):
            async with GrpcCaller(service, {**VERSION, "x-api-key": KEYS[name]}) as caller:
                ids.append((await caller.task("ask", task_push_notification_config=laden(hook, id="mine"))).id)
        client = one_store_server.client
        places = {
            task: next(key for key in cast("list[bytes]", client.keys(f"*{task}*")) if _holds_config(client, key))
            for task in ids
        }
        of_alice = cast("bytes", client.hget(cast("str", places[ids[0]]), "c:mine"))
        client.hset(cast("str", places[ids[1]]), "c:mine", cast("str", of_alice))
        async with GrpcCaller(service, {**VERSION, "x-api-key": KEYS["alice"]}) as alice:
            assert (await get(alice, ids[0], "mine")).token == SECRETS[1]
        async with GrpcCaller(service, {**VERSION, "x-api-key": KEYS["bob"]}) as bob:
            with pytest.raises(CallError, match="cannot be decrypted"):
                await get(bob, ids[1], "mine")


def _holds_config(client: redis.Redis, key: bytes) -> bool:
    return client.type(key) == b"hash" and bool(client.hexists(cast("str", key), "c:mine"))


async def test_a_store_holds_no_secret_where_a_key_is_configured(pair_pool: PairPool, hook: Receiver) -> None:
    """Neither as a webhook nor with the message that brought it, delivered or given up."""
    pair = pair_pool.get(AGENT, {**QUICK, "A2A_ENCRYPTION_KEYS": NEW, "A2A_PUSH_ATTEMPTS": "2"})

    async def fails_once(delivery: Delivery) -> Answer:
        return Answer(500 if delivery.seq == 2 and len(hook.deliveries) < 2 else 200)

    hook.behave = fails_once
    async with GrpcCaller(pair.replicas[0], VERSION) as caller:
        task = await caller.task("ask", task_push_notification_config=laden(hook, id="mine"))
        await create(caller, task.id, laden(hook))
        assert not any(word.encode() in contents(pair.store.client) for word in SECRETS)
        await caller.send(say("echo hi", task_id=task.id, task_push_notification_config=laden(hook, id="third")))
        assert not any(word.encode() in contents(pair.store.client) for word in SECRETS)
        assert (await get(caller, task.id, "mine")).authentication.credentials == SECRETS[0]
    for one in await hook.until_end():
        assert one.header("authorization") == f"Bearer {SECRETS[0]}"
        assert one.header("x-a2a-notification-token") == SECRETS[1]


async def test_keys_are_rotated_and_logs_hold_no_secret(one_store_server: StoreServer, hook: Receiver) -> None:
    """What an old key has sealed is delivered; without that key it is not, and nothing leaks then either."""
    url = one_store_server.url

    async def closed(_: Delivery) -> Answer:
        return Answer(503)

    hook.behave = closed
    env = {**QUICK, "A2A_LOG_LEVEL": "debug", "A2A_LOG_FORMAT": "json", "A2A_PUSH_ATTEMPTS": "1000"}
    logs = []
    async with replica(agent=AGENT, redis_url=url, env={**env, "A2A_ENCRYPTION_KEYS": OLD}) as first:
        async with GrpcCaller(first, VERSION) as caller:
            task = await caller.task("echo hi", task_push_notification_config=laden(hook, id="mine"))
        await hook.until(3)
        logs.append(first.log(None))
    async with replica(agent=AGENT, redis_url=url, env={**env, "A2A_ENCRYPTION_KEYS": NEW}) as second:
        async with GrpcCaller(second, VERSION) as caller:
            with pytest.raises(Exception, match="cannot be decrypted"):
                await get(caller, task.id, "mine")
        logs.append(second.log(None))

    async def opened(_: Delivery) -> Answer:
        return Answer()

    hook.behave = opened
    async with replica(agent=AGENT, redis_url=url, env={**env, "A2A_ENCRYPTION_KEYS": f"{NEW},{OLD}"}) as third:
        async with GrpcCaller(third, VERSION) as caller:
            assert (await get(caller, task.id, "mine")).token == SECRETS[1]
        assert (await hook.until_end())[-1].header("authorization") == f"Bearer {SECRETS[0]}"
        logs.append(third.log(None))
    await asyncio.sleep(0)
    assert all("webhook mine" in log for log in logs[:2])
    assert [word for word in (*SECRETS, NEW, OLD) for log in logs if word in log] == []
