"""A remote agent as if it were a local one."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Self

from a2a_grpc.client.card import CardResolver
from a2a_grpc.client.client import A2AClient
from a2a_grpc.client.closing import Closing
from a2a_grpc.client.configuration import Configuration
from a2a_grpc.client.continuation import Continuation
from a2a_grpc.client.credentials import Credentials
from a2a_grpc.client.discovery import Target
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.client.results import Reply, Result, Update, result_of
from a2a_grpc.client.running import Runner, drained
from a2a_grpc.client.session import Said, Session
from a2a_grpc.client.states import TERMINAL
from a2a_grpc.client.transports.observed import Observer
from a2a_grpc.pb import a2a_pb2


class RemoteAgent(Closing):
    """An agent that runs elsewhere. Make one with `connect`, close it with `aclose` or `async with`.

        async with await RemoteAgent.connect("http://localhost:8080") as agent:
            result = await agent.run("summarize Agents call each other. They speak A2A.")
            print(result.raise_for_outcome().text)

    A run survives connections that break and replicas that stop: it follows its task, and never hangs on one long call.
    What the agent says is never an exception, however it goes: the result is of the type that says it (`Completed`,
    `Failed`, …). What prevents an answer is an A2AError, as with `A2AClient`, and these two keep the task:
    StillRunningError when the caller's `timeout` is over, StreamBrokenError when the agent cannot be reached any more.
    Both have a `continuation`. No message is sent twice, save under its own id to an agent that knows it again.
    """

    def __init__(self, client: A2AClient, *, patience: float = 30.0) -> None:
        """Of a client that is connected; the agent closes it. `patience`, in seconds: see `A2AClient.connect`."""
        self._client = client
        self._runner = Runner(client, patience)

    @classmethod
    async def connect(
        cls,
        target: Target | Configuration,
        *,
        headers: Mapping[str, str] | None = None,
        extensions: Sequence[str] = (),
        bindings: Sequence[str] = BINDINGS,
        connect_timeout: float = 10.0,
        keepalive: float | None = 30.0,
        patience: float = 30.0,
        ca_file: Path | None = None,
        resolver: CardResolver | None = None,
        credentials: Credentials | Sequence[Credentials] | None = None,
        allow_origins: Sequence[str] = (),
        idle_timeout: float | None = None,
        verify: bool = True,
        observer: Observer | None = None,
        check_artifacts: bool = True,
    ) -> Self:
        """Find the agent and connect to it: all arguments, and the errors, are those of `A2AClient.connect`.

        But for `check_artifacts`, which is on.
        """
        client = await A2AClient.connect(
            target,
            headers=headers,
            extensions=extensions,
            bindings=bindings,
            connect_timeout=connect_timeout,
            keepalive=keepalive,
            patience=patience,
            ca_file=ca_file,
            resolver=resolver,
            credentials=credentials,
            allow_origins=allow_origins,
            idle_timeout=idle_timeout,
            verify=verify,
            observer=observer,
            check_artifacts=check_artifacts,
        )
        return cls(client, patience=patience)

    @property
    def client(self) -> A2AClient:
        """The client, for the operations that have no place here."""
        return self._client

    @property
    def card(self) -> a2a_pb2.AgentCard | None:
        """The agent's card; None when the client was made from an interface alone."""
        return self._client.card

    @property
    def name(self) -> str:
        """The agent's name; "" without a card."""
        return self._client.card.name if self._client.card else ""

    def session(self, context_id: str = "", *, token: str = "") -> Session:
        """A conversation: a new one, one whose context is known, or one that `Session.to_token` has written down.

        Raises InvalidArgumentError for a token that is none, or of another context.
        """
        return Session(self._runner, context_id, token)

    async def run(self, message: Said, *, timeout: float | None = None) -> Result:
        """Say something and wait for what comes of it: an answer, a question, a refusal.

        `message` is a text, a Message, or a SendMessageRequest with configuration and metadata; ids that are missing
        are filled in. `timeout` is in seconds; None, the default, sets no limit.
        """
        return await self.session().run(message, timeout=timeout)

    def run_stream(self, message: Said, *, timeout: float | None = None) -> AsyncGenerator[Update | Result, None]:
        """Say something and see what happens, as it happens: updates, and the Result as the last item.

        async for update in agent.run_stream("slow 3"):
            match update:
                case ArtifactChunk():
                    print(update.text, end="")
                case Failed():
                    print("failed:", update.text)
        """
        return self.session().run_stream(message, timeout=timeout)

    async def start(self, message: Said, *, timeout: float | None = None) -> Continuation | Reply:
        """Say something and don't wait: the agent works in the background.

        Returns where to go on, with `resume` or `result`, here or in another process. An agent that answers with a
        message instead of a task has answered already.
        """
        return await self.session().start(message, timeout=timeout)

    def resume(
        self, continuation: Continuation | str, *, timeout: float | None = None
    ) -> AsyncGenerator[Update | Result, None]:
        """Follow a task again: the task as it stood at that place, what came after it, and its Result.

        Where the agent no longer has what came after it, the task as it stands comes in its place. A task that has
        ended gives its result. After `AuthRequired` it waits until the agent goes on. `continuation` may be a token.
        Raises InvalidArgumentError for a token that is none, TaskNotFoundError when the task was erased, or is not the
        caller's.
        """
        place = Continuation.from_token(continuation) if isinstance(continuation, str) else continuation
        return self._runner.resume(place, timeout)[1]

    async def result(self, continuation: Continuation | str, *, timeout: float | None = None) -> Result:
        """What comes of a task, as `resume` tells it at the end."""
        return await drained(self.resume(continuation, timeout=timeout))

    async def cancel(self, task_id: str, *, timeout: float | None = None) -> Result:
        """Cancel a task and wait for its end. Raises TaskNotCancelableError if it has ended already."""
        task = await self._client.cancel_task(a2a_pb2.CancelTaskRequest(id=task_id), timeout=timeout)
        place = Continuation(target=self._runner.target, task_id=task.id, context_id=task.context_id)
        if task.status.state in TERMINAL:
            return result_of(task, place)
        return await self.result(place, timeout=timeout)

    async def aclose(self) -> None:
        """Close the client. Does nothing the second time."""
        await self._client.aclose()
