"""The demo agent: what `a2a-grpc serve` runs when no agent is named.

`summarize TEXT` streams the sentences that carry a text, one chunk a sentence. `guess` plays a game that needs several
turns: it asks, and goes on with the answer on whatever replica gets it.
"""

import asyncio
import re
from collections import Counter
from hashlib import blake2b

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.agent import Agent
from a2a_grpc.server.agents.turn import Turn

agent = Agent(
    name="a2a-grpc demo",
    description="Summarizes texts, and plays a guessing game. No model and no network needed.",
    version="1.0.0",
    output_modes=["text/plain", "application/json"],
)

_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")  # noqa: RUF001 - texts in Chinese end their sentences so
_WORD = re.compile(r"\w{4,}|[\u4e00-\u9fff]{2}")
_LOWEST, _HIGHEST = 1, 100


@agent.skill(
    id="summarize",
    name="Summarize",
    description="Picks the sentences that say most of what a text says, and streams them in their order.",
    tags=["text", "summary"],
    examples=["summarize Agents call each other. They speak A2A. Some of them are slow. A2A lets them stream."],
)
async def summarize(turn: Turn) -> None:
    """Rank sentences by how frequent their words are in the whole text; keep the best third."""
    sentences = [
        found.strip() for found in _SENTENCE.findall(_without_command(turn.text, "summarize")) if found.strip()
    ]
    if not sentences:
        await turn.require_input("Send me the text to summarize.")
        return
    await turn.working(f"reading {len(sentences)} sentences")
    counts = Counter(word.lower() for sentence in sentences for word in _WORD.findall(sentence))
    scores = [_score(sentence, counts) for sentence in sentences]
    kept = sorted(sorted(range(len(sentences)), key=lambda at: -scores[at])[: 1 + (len(sentences) - 1) // 3])
    for at in kept:
        await turn.stream("summary", text=sentences[at] + " ", last=at == kept[-1])
        # A sentence at a time, as a model would write it.
        await asyncio.sleep(0.05)
    await turn.artifact(
        "statistics",
        data={
            "sentences": len(sentences),
            "kept": len(kept),
            "words": [word for word, _ in counts.most_common(5)],
        },
    )


@agent.skill(
    id="guess",
    name="Guess my number",
    description=f"Thinks of a number from {_LOWEST} to {_HIGHEST} and says whether your guess is too low or too high.",
    tags=["game", "multi-turn"],
    examples=["guess"],
)
async def guess(turn: Turn) -> None:
    """The number follows from the task's id, so every replica thinks of the same one."""
    number = _LOWEST + blake2b(turn.task_id.encode()).digest()[0] * (_HIGHEST - _LOWEST + 1) // 256
    guesses = [_number(said) for said in (turn.text, *_earlier(turn))]
    latest = guesses[0]
    if latest is None:
        await turn.require_input(f"I think of a number from {_LOWEST} to {_HIGHEST}. Which is it?")
    elif latest < number:
        await turn.require_input(f"{latest} is too low. Try again.")
    elif latest > number:
        await turn.require_input(f"{latest} is too high. Try again.")
    else:
        tries = sum(made is not None for made in guesses)
        await turn.artifact("result", data={"number": number, "tries": tries})
        await turn.complete(f"Yes, it is {number}. You needed {tries} {'try' if tries == 1 else 'tries'}.")


def _earlier(turn: Turn) -> list[str]:
    """What the caller said before in this game."""
    return [part.text for said in turn.history if said.role == a2a_pb2.ROLE_USER for part in said.parts]


def _without_command(text: str, command: str) -> str:
    return text.removeprefix(command).lstrip()


def _score(sentence: str, counts: Counter[str]) -> float:
    words = _WORD.findall(sentence)
    return sum(counts[word.lower()] for word in words) / (len(words) or 1)


def _number(text: str) -> int | None:
    found = re.search(r"\d+", text)
    return int(found[0]) if found else None
