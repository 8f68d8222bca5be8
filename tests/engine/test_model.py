"""Random lives of tasks on two replicas and a real store, beside a small pure model of them.

The agent is a puppet: each turn does what the test tells it. After every step the store must fit together, both
replicas must show every task as the model has it, and in the end every subscriber must have seen the whole log.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from a2a_grpc.server.agents import Fail, Reject, Turn
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.events import Event, delivered
from a2a_grpc.wire.errors import TaskNotCancelableError, UnsupportedOperationError
from tests.engine.nodes import Node, State, artifacts, history, open_node, words
from tests.support.audit import audit
from tests.support.servers import StoreServer

PLACES = 2
"""How many turns may run on each replica."""
PATIENCE = 5.0
ANY = st.integers(0, 11)


@dataclass
class Model:
    """What one task should be. It knows nothing of stores, replicas and time."""

    turn: str
    """The message with which the turn began, or will begin."""
    history: list[str]
    state: State = states.SUBMITTED
    words: str = ""
    queue: list[str] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)
    checkpoint: bytes | None = None
    busy: bool = True
    """A turn runs or waits for a replica."""
    taken: str = ""
    """The last message that the turn took from its inbox: with this it begins again if it changes hands."""

    @property
    def over(self) -> bool:
        return self.state in states.TERMINAL

    def becomes(self, state: State, words: str = "") -> None:
        """A status: the one before is history. An end that finds a message waiting is none."""
        if self.words:
            self.history.append(self.words)
        if self.queue and state in {states.COMPLETED, states.INPUT_REQUIRED}:
            state = states.WORKING
        self.state, self.words = state, words
        self.busy = self.busy and not self.over

    def hears(self, text: str) -> None:
        """A caller's message."""
        if not self.busy:
            self.becomes(states.WORKING)
            self.busy, self.turn, self.taken = True, text, ""
        else:
            if self.state == states.INPUT_REQUIRED and self.words:
                self.history.append(self.words)
                self.words = ""
            self.queue.append(text)
        self.history.append(text)

    def takes(self) -> None:
        """The running turn takes a message from its inbox."""
        self.taken = self.queue.pop(0)
        if self.state in states.INTERRUPTED:
            self.becomes(states.WORKING)

    def returns(self) -> None:
        """The turn's function returns."""
        if self.over:
            return
        if self.state not in states.INTERRUPTED:
            self.becomes(states.COMPLETED)
        if self.queue:
            self.takes()
            self.changes_hands()
        else:
            self.busy = False

    def changes_hands(self) -> None:
        """Another turn begins, with what was taken last."""
        self.turn, self.taken = self.taken or self.turn, ""


class Puppet:
    """A turn that does as it is told."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.orders: asyncio.Queue[tuple[Callable[[Turn], Awaitable[Any]], asyncio.Future[Any]]] = asyncio.Queue()
        self.begun = False
        """It has written a chunk."""


@dataclass
class Subscriber:
    """Somebody who follows a task on a replica."""

    task_id: str
    node: Node
    events: list[Event]
    following: asyncio.Task[None]


class Leave(BaseException):
    """An order to return."""


class Lives(RuleBasedStateMachine):
    """The machine. Every rule is one thing that a caller, an agent or the world does."""

    tasks: Bundle[str] = Bundle("tasks")

    def __init__(self, server: StoreServer) -> None:
        super().__init__()
        self.server = server
        self.loop = asyncio.new_event_loop()
        self.models: dict[str, Model] = {}
        self.puppets: dict[str, Puppet] = {}
        self.doubles: list[str] = []
        self.sent: dict[str, tuple[str, str]] = {}
        self.texts = 0
        self.nodes: list[Node] = []
        self.stacks: list[contextlib.AsyncExitStack] = []
        self.seen: list[Subscriber] = []

    # -- the world ---------------------------------------------------------------------------------------------------

    @initialize()
    def open(self) -> None:
        self.server.reset()
        for at in range(2):
            self.stacks.append(contextlib.AsyncExitStack())
            self.nodes.append(self.run(self.opened(at)))

    async def opened(self, at: int) -> Node:
        return await self.stacks[at].enter_async_context(
            open_node(self.server.url, self.agent, f"r{at}", max_turns=PLACES, snapshot_events=3, cancel_grace=2.0)
        )

    def teardown(self) -> None:
        try:
            if self.nodes:
                self.run(self.compare_subscribers())
        finally:
            for stack in self.stacks:
                self.run(stack.aclose())
            self.run(self.loop.shutdown_asyncgens())
            self.loop.close()

    def run(self, work: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(4 * PATIENCE):
                return await work

        return self.loop.run_until_complete(bounded())

    async def agent(self, turn: Turn) -> None:
        if turn.task_id in self.puppets:
            self.doubles.append(turn.task_id)
        puppet = self.puppets[turn.task_id] = Puppet(turn)
        try:
            while True:
                order, done = await puppet.orders.get()
                try:
                    result = await order(turn)
                except Leave:
                    done.set_result(None)
                    return
                except (Fail, Reject, ValueError):
                    done.set_result(None)
                    raise
                done.set_result(result)
        finally:
            if self.puppets.get(turn.task_id) is puppet:
                del self.puppets[turn.task_id]

    def tell(self, task_id: str, order: Callable[[Turn], Awaitable[Any]]) -> Any:
        """Let the turn of a task do something, and see it stored."""

        async def told() -> Any:
            done: asyncio.Future[Any] = self.loop.create_future()
            self.puppets[task_id].orders.put_nowait((order, done))
            return await done

        return self.run(told())

    def said(self) -> str:
        self.texts += 1
        return f"text {self.texts}"

    # -- callers -----------------------------------------------------------------------------------------------------

    @rule(target=tasks, at=st.integers(0, 1))
    @precondition(lambda self: len(self.models) < 6)
    def create(self, at: int) -> Any:
        text, message_id = self.said(), ids.new_id()
        task_id = self.run(self.nodes[at].begin(text, message_id=message_id))
        self.models[task_id] = Model(turn=text, history=[text])
        self.sent[message_id] = (text, task_id)
        for node in self.nodes:
            self.follow(node, task_id)
        return multiple(task_id)

    @rule(task_id=tasks, at=st.integers(0, 1))
    def send(self, task_id: str, at: int) -> None:
        text, message_id, model = self.said(), ids.new_id(), self.models[task_id]
        if model.over:
            with pytest.raises(UnsupportedOperationError):
                self.run(self.nodes[at].begin(text, task_id))
            return
        assert self.run(self.nodes[at].begin(text, task_id, message_id=message_id)) == task_id
        model.hears(text)
        self.sent[message_id] = (text, task_id)

    @rule(data=st.data(), at=st.integers(0, 1))
    @precondition(lambda self: self.sent)
    def send_again(self, data: st.DataObject, at: int) -> None:
        """The same message once more changes nothing."""
        message_id = data.draw(st.sampled_from(sorted(self.sent)))
        text, task_id = self.sent[message_id]
        first = text == self.models[task_id].history[0]
        assert self.run(self.nodes[at].begin(text, "" if first else task_id, message_id=message_id)) == task_id

    @rule(task_id=tasks, at=st.integers(0, 1))
    def cancel(self, task_id: str, at: int) -> None:
        model = self.models[task_id]
        if model.over:
            with pytest.raises(TaskNotCancelableError):
                self.run(self.nodes[at].cancel(task_id))
            return
        assert self.run(self.nodes[at].cancel(task_id)).status.state == states.CANCELED
        model.becomes(states.CANCELED)

    # -- agents ------------------------------------------------------------------------------------------------------

    @property
    def live(self) -> list[str]:
        """The tasks of which a turn runs that may still write."""
        return [task_id for task_id, model in self.models.items() if task_id in self.puppets and not model.over]

    def pick(self, which: int) -> str:
        return self.live[which % len(self.live)]

    @rule(
        which=ANY,
        state=st.sampled_from([states.WORKING, states.INPUT_REQUIRED, states.AUTH_REQUIRED, states.COMPLETED]),
        silent=st.booleans(),
    )
    @precondition(lambda self: self.live)
    def agent_says(self, which: int, state: State, silent: bool) -> None:
        task_id = self.pick(which)
        text = "" if silent and state in {states.WORKING, states.COMPLETED} else self.said()

        async def say(turn: Turn) -> None:
            match state:
                case states.WORKING:
                    await turn.working(text or None)
                case states.COMPLETED:
                    await turn.complete(text or None)
                case states.INPUT_REQUIRED:
                    await turn.require_input(text)
                case _:
                    await turn.require_auth(text)
            await turn.flush()

        self.tell(task_id, say)
        model = self.models[task_id]
        model.becomes(state, text)
        if model.over:
            self.tell(task_id, leave)

    @rule(which=ANY, count=st.integers(1, 5))
    @precondition(lambda self: self.live)
    def agent_writes(self, which: int, count: int) -> None:
        task_id = self.pick(which)
        texts = [self.said() for _ in range(count)]

        async def write(turn: Turn) -> None:
            for text in texts:
                await turn.stream("out", text=text)
            await turn.flush()

        self.tell(task_id, write)
        model, puppet = self.models[task_id], self.puppets[task_id]
        model.chunks = [*(model.chunks if puppet.begun else []), *texts]
        puppet.begun = True

    @rule(which=ANY)
    @precondition(lambda self: self.live)
    def agent_keeps(self, which: int) -> None:
        task_id, state = self.pick(which), self.said().encode()
        self.tell(task_id, lambda turn: turn.checkpoint(state))
        self.models[task_id].checkpoint = state

    @rule(which=ANY)
    @precondition(lambda self: any(self.models[task_id].queue for task_id in self.live))
    def agent_listens(self, which: int) -> None:
        waited_for = [task_id for task_id in self.live if self.models[task_id].queue]
        task_id = waited_for[which % len(waited_for)]
        model = self.models[task_id]

        async def listen(turn: Turn) -> str:
            message = await turn.inbox.get()
            await turn.flush()
            return message.parts[0].text

        expected = model.queue[0]
        assert self.tell(task_id, listen) == expected
        model.takes()

    @rule(which=ANY)
    @precondition(lambda self: self.live)
    def agent_returns(self, which: int) -> None:
        task_id = self.pick(which)
        self.tell(task_id, leave)
        self.models[task_id].returns()

    @rule(which=ANY, how=st.sampled_from(["raises", "fails", "rejects"]))
    @precondition(lambda self: self.live)
    def agent_breaks(self, which: int, how: str) -> None:
        task_id, text = self.pick(which), self.said()

        async def break_off(_: Turn) -> None:
            raise {"raises": ValueError, "fails": Fail, "rejects": Reject}[how](text)

        self.tell(task_id, break_off)
        self.models[task_id].becomes(
            states.REJECTED if how == "rejects" else states.FAILED, "The agent failed." if how == "raises" else text
        )

    # -- trouble -----------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(["connections", "scripts"]))
    def trouble(self, kind: str) -> None:
        if kind == "scripts":
            self.server.client.script_flush()
        else:
            self.server.cut_connections()
            self.server.cut_connections("pubsub")
            self.run(self.until(lambda: all(node.tail.connected for node in self.nodes), "the tails are back"))

    @rule(at=st.integers(0, 1))
    @precondition(lambda self: self.puppets)
    def restart(self, at: int) -> None:
        """A replica closes, which gives its turns back, and another takes its place."""
        for subscriber in [one for one in self.seen if one.node is self.nodes[at]]:
            self.seen.remove(subscriber)
            self.run(self.compare_subscriber(subscriber))
        before = dict(self.puppets)
        self.run(self.stacks[at].aclose())
        for task_id, puppet in before.items():
            if self.puppets.get(task_id) is not puppet:
                self.models[task_id].changes_hands()
        self.nodes[at] = self.run(self.opened(at))
        for task_id, model in self.models.items():
            if not model.over:
                self.follow(self.nodes[at], task_id)

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        if not self.nodes:
            return
        self.run(self.settle())
        assert not self.doubles, "two turns of one task at once"
        assert audit(self.server.client) == []
        for node in self.nodes:
            self.run(self.compare(node))

    async def settle(self) -> None:
        """Wait until every turn that can run runs: with the message that the model says."""
        busy = {task_id for task_id, model in self.models.items() if model.busy}

        def settled() -> bool:
            return (
                len(self.puppets) == min(len(busy), 2 * PLACES)
                and self.puppets.keys() <= busy
                and all(puppet.turn.text == self.models[at].turn for at, puppet in self.puppets.items())
                and sum(node.engine.running for node in self.nodes) == len(self.puppets)
            )

        await self.until(settled, f"the turns settle: {self.models}")

    async def until(self, predicate: Callable[[], bool], description: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not predicate():
            assert time.monotonic() < deadline, f"not within {PATIENCE} s: {description}; {self.puppets.keys()}"
            await asyncio.sleep(0.001)

    async def compare(self, node: Node) -> None:
        """All that callers can see on a replica, asked for at once."""
        wanted = list(states.TRANSITIONS)
        listed, *answers = await asyncio.gather(
            node.list(page_size=100),
            *(node.list(status=state) for state in wanted),
            *(self.compare_task(node, task_id, model) for task_id, model in self.models.items()),
        )
        counts = Counter(model.state for model in self.models.values())
        for state, page in zip(wanted, answers, strict=False):
            assert page is not None and page.total_size == counts[state]
        assert listed is not None
        assert {task.id for task in listed.tasks} == self.models.keys()
        stamps = [(task.status.timestamp.ToMilliseconds(), task.id) for task in listed.tasks]
        assert stamps == sorted(stamps, reverse=True)

    async def compare_task(self, node: Node, task_id: str, model: Model) -> None:
        task, stored = await asyncio.gather(node.get(task_id), node.store.read(task_id))
        assert (task.status.state, words(task), history(task)) == (model.state, model.words, model.history)
        assert artifacts(task).get("out", []) == model.chunks
        assert stored is not None
        assert stored.checkpoint == model.checkpoint
        assert model.queue == await asyncio.gather(*(self.text_of(node, task_id, seq) for seq in stored.queue))

    async def text_of(self, node: Node, task_id: str, seq: int) -> str:
        origin = await node.store.origin(task_id, seq)
        assert origin is not None
        return origin.message.parts[0].text

    def follow(self, node: Node, task_id: str) -> None:
        """A subscriber from now on."""
        events: list[Event] = []
        begun = asyncio.Event()

        async def collect() -> None:
            async for event in node.subscribe(task_id):
                events.append(event)
                begun.set()

        async def follow() -> None:
            self.seen.append(Subscriber(task_id, node, events, self.loop.create_task(collect())))
            await begun.wait()

        self.run(follow())

    async def compare_subscribers(self) -> None:
        for subscriber in self.seen:
            await self.compare_subscriber(subscriber)

    async def compare_subscriber(self, subscriber: "Subscriber") -> None:
        """It has seen the task, then the whole log from there on, up to now."""
        log = await subscriber.node.store.log(subscriber.task_id, 0, 10_000)
        first = subscriber.events[0]
        assert first.response.HasField("task")
        expected = [event for event in log if delivered(event.response) and event.seq > first.seq]
        await self.until(lambda: len(subscriber.events) > len(expected), "every subscriber sees all there is")
        assert subscriber.events[1:] == expected
        if self.models[subscriber.task_id].over:
            await self.until(subscriber.following.done, "the stream of an ended task ends")
        subscriber.following.cancel()
        await asyncio.gather(subscriber.following, return_exceptions=True)


async def leave(_: Turn) -> None:
    raise Leave


def lives(server: StoreServer, examples: int, steps: int) -> None:
    class OnServer(Lives):
        def __init__(self) -> None:
            super().__init__(server)

    run_state_machine_as_test(
        OnServer,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # To shrink a life in which somebody waits for what never comes takes as long as all the rest.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
        ),
    )


def test_lives_of_tasks(one_store_server: StoreServer) -> None:
    lives(one_store_server, examples=4, steps=30)


@pytest.mark.wide
def test_more_lives_of_tasks(store_server: StoreServer) -> None:
    lives(store_server, examples=8, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_lives_of_tasks(store_server: StoreServer) -> None:
    lives(store_server, examples=120, steps=50)
