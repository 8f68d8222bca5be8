"""The conformance agent: what it does is said by the message id, or by the first word of the text.

Four profiles, since capabilities switch behaviour: `full`, `min`, `extdecl`, `reqext`. Serve one like any other agent:
`a2a-grpc serve tests.conformance.agent:full`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Fail, Reject, Turn

Act = Callable[[Turn, str], Awaitable[None]]

REQUIRED_EXTENSION = "urn:a2a:tck:required-extension"
_FILE_URL = "https://example.com/output.txt"


async def _complete(turn: Turn, _: str) -> None:
    return


async def _hello(turn: Turn, _: str) -> None:
    await turn.complete("Hello from TCK")


async def _input_required(turn: Turn, _: str) -> None:
    await turn.require_input("Please send more input.")


async def _text(turn: Turn, _: str) -> None:
    await turn.artifact("output", text="Generated text content")


async def _file(turn: Turn, _: str) -> None:
    await turn.artifact("output", raw=b"file content", filename="output.txt", media_type="text/plain")


async def _file_url(turn: Turn, _: str) -> None:
    await turn.artifact("output", url=_FILE_URL, filename="output.txt", media_type="text/plain")


async def _data(turn: Turn, _: str) -> None:
    await turn.artifact("output", data={"key": "value", "count": 42})


async def _direct(turn: Turn, _: str) -> None:
    await turn.reply("Direct message response")


def _streaming(text: str) -> Act:
    async def act(turn: Turn, _: str) -> None:
        await turn.working()
        await turn.artifact("output", text=text)

    return act


async def _stream_file(turn: Turn, rest: str) -> None:
    await turn.working()
    await _file(turn, rest)


async def _stream_chunked(turn: Turn, _: str) -> None:
    await turn.working()
    await turn.stream("output", text="chunk-1 ")
    await turn.stream("output", text="chunk-2", last=True)


async def _rejected(turn: Turn, _: str) -> None:
    raise Reject("This agent refuses such messages.")


async def _resubscribe(turn: Turn, _: str) -> None:
    await turn.working()
    await asyncio.sleep(4)


BY_MESSAGE_ID: dict[str, Act] = {
    "tck-complete-task": _hello,
    "tck-input-required": _input_required,
    "tck-artifact-text": _text,
    "tck-artifact-file": _file,
    "tck-artifact-file-url": _file_url,
    "tck-artifact-data": _data,
    "tck-message-response": _direct,
    "tck-stream-001": _streaming("Stream hello from TCK"),
    "tck-stream-002": _direct,
    "tck-stream-003": _streaming("Stream task lifecycle"),
    "tck-stream-ordering-001": _streaming("Ordered output"),
    "tck-reject-task": _rejected,
    "tck-stream-artifact-text": _streaming("Streamed text content"),
    "tck-stream-artifact-file": _stream_file,
    "tck-stream-artifact-chunked": _stream_chunked,
    "test-resubscribe-message-id": _resubscribe,
}


async def _echo(turn: Turn, rest: str) -> None:
    """Every part comes back as it came, the first text without the word `echo` and the space behind it."""
    parts = [a2a_pb2.Part.FromString(part.SerializeToString()) for part in turn.parts]
    first = next(part for part in parts if part.HasField("text"))
    first.text = rest
    await turn.artifact("echo", parts=parts)


async def _slow(turn: Turn, rest: str) -> None:
    seconds, _, how = rest.partition(" ")
    left, chunk = float(seconds), 0
    await turn.working()
    while left > 0:
        await asyncio.sleep(left if left < 1.0 else 1.0)  # noqa: FURB136 - `min` is a profile here
        left, chunk = left - 1.0, chunk + 1
        if how != "silent":
            await turn.stream("slow", text=f"chunk {chunk} ", last=left <= 0)


async def _chunks(turn: Turn, rest: str) -> None:
    """Chunks of 20 bytes each: the number of the chunk, and a space."""
    count = int(rest)
    await turn.working()
    for number in range(1, count + 1):
        await turn.stream("chunks", text=f"{number:019d} ", last=number == count)


async def _replace(turn: Turn, rest: str) -> None:
    """An artifact, another one, and then the first one again with other content."""
    old, _, new = rest.partition(" ")
    await turn.artifact("replaced", text=old, artifact_id="replaced")
    await turn.artifact("between", text="between", artifact_id="between")
    await turn.artifact("replaced", text=new, artifact_id="replaced")


async def _ask(turn: Turn, _: str) -> None:
    await turn.require_input("What else?")


async def _auth(turn: Turn, rest: str) -> None:
    await turn.require_auth("Please approve this at https://example.com/approve.")
    await asyncio.sleep(float(rest or 1))
    await turn.working()


async def _mute(turn: Turn, _: str) -> None:
    """Owes its caller a message (3.1.1) and gives none."""


async def _fail(turn: Turn, _: str) -> None:
    raise Fail("It did not work out.")


async def _raise(turn: Turn, rest: str) -> None:
    for number in range(int(rest or 0)):
        await turn.stream("raise", text=f"chunk {number + 1} ")
    raise RuntimeError("secret: the caller must never read this")


async def _exit(turn: Turn, _: str) -> None:
    sys.exit(1)


async def _hang(turn: Turn, _: str) -> None:
    await asyncio.Event().wait()


async def _deaf(turn: Turn, rest: str) -> None:
    """Swallow every cancellation until so many seconds after the first."""
    await turn.working()
    loop = asyncio.get_running_loop()
    until: float | None = None
    while until is None or loop.time() < until:
        try:
            await asyncio.sleep(3600 if until is None else until - loop.time())
        except asyncio.CancelledError:
            until = until or loop.time() + float(rest or 1)


BY_WORD: dict[str, Act] = {
    "echo": _echo,
    "slow": _slow,
    "chunks": _chunks,
    "replace": _replace,
    "ask": _ask,
    "auth": _auth,
    "fail": _fail,
    "raise": _raise,
    "reject": _rejected,
    "msg": _direct,
    "mute": _mute,
    "exit": _exit,
    "hang": _hang,
    "deaf": _deaf,
}


_MESSAGES = (_direct, _mute)


def _pick(message: a2a_pb2.Message) -> tuple[Act, str]:
    """What to do, and what follows the word that says so."""
    prefixes = [prefix for prefix in BY_MESSAGE_ID if message.message_id.startswith(prefix)]
    if prefixes:
        return BY_MESSAGE_ID[max(prefixes, key=len)], ""
    text = next((part.text for part in message.parts if part.HasField("text")), "")
    word, _, rest = text.partition(" ")
    return BY_WORD.get(word, _complete), rest


def _agent(
    *, streaming: bool = True, push: bool = True, extended: bool = False, configured: bool = False, extension: str = ""
) -> Agent:
    agent = Agent(
        name="Conformance agent",
        description="Does what the message id or the first word of the text says.",
        version="1.0.0",
        input_modes=["text/plain", "application/json"],
        output_modes=["text/plain", "application/json"],
        streaming=streaming,
    )
    if not push:
        agent.card.capabilities.push_notifications = False
    if extension:
        agent.card.capabilities.extensions.add(uri=extension, required=True, description="Required by this profile.")

    async def act(turn: Turn) -> None:
        what, rest = _pick(turn.message)
        await what(turn, rest)

    agent.skill(id="task", name="Tasks", description="Answers with a task.", tags=["conformance"])(act)
    agent.skill(
        id="message", name="Messages", description="Answers with a message.", tags=["conformance"], answers="message"
    )(act)
    # A follow-up belongs to a task whatever it says; a message-only answer is for new work.
    agent.router(lambda message: "message" if _pick(message)[0] in _MESSAGES and not message.task_id else "task")

    agent.card.capabilities.extended_agent_card = extended
    if configured:
        agent.extended_card = a2a_pb2.AgentCard()
        agent.extended_card.CopyFrom(agent.card)
        agent.extended_card.skills.add(
            id="secret", name="Only for those we know", description="Not in the public card.", tags=["conformance"]
        )
    return agent


full = _agent(extended=True, configured=True)
min = _agent(streaming=False, push=False)  # noqa: A001 - the name of the profile
extdecl = _agent(extended=True)
reqext = _agent(extension=REQUIRED_EXTENSION)
