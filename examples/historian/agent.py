"""An agent to talk to about two old states: `a2a-grpc serve examples.historian.agent:agent`, and `chat.py` beside it.

A message of a conversation begins a new task and refers to those before it. What a question leaves out ("And how did it
end?") is taken from there.
"""

import asyncio
import re
from typing import Final

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Historian", description="Talks about the states of Qi and Lu.", version="1.0.0")

SAYINGS: Final = {
    ("Qi", "beginning"): "Qi lay by the sea. Its first lord let customs be, and let trade grow. That made it strong.",
    ("Qi", "end"): "In Qi the house of Tian grew, and took the throne of the house of Jiang. Qin took the rest.",
    ("Lu", "beginning"): "Lu kept the rites of Zhou. Its order was firm. It was slow to change.",
    ("Lu", "end"): "In Lu three families held each other in check. The state grew weak, and lasted. Chu ended it.",
}
_STATE: Final = re.compile(r"\b(Qi|Lu)\b", re.IGNORECASE)
_END: Final = re.compile(r"\b(ends?|ended|fell|fall|last)\b", re.IGNORECASE)


@agent.skill(id="tell", name="Tell", description="Tells how Qi and Lu began and ended.", tags=["history"])
async def tell(turn: Turn) -> None:
    states = named(turn.text) or await before(turn)
    if not states:
        await turn.require_input("Of which state shall I tell, Qi or Lu?")
        return
    when = "end" if _END.search(turn.text) else "beginning"
    sentences = [one for state in states for one in re.findall(r"[^.]+\.", SAYINGS[state, when])]
    for at, sentence in enumerate(sentences, start=1):
        await turn.stream("answer", text=sentence, last=at == len(sentences))
        # A sentence at a time, as one speaks.
        await asyncio.sleep(0.05)


def named(text: str) -> list[str]:
    """The states in a text, each once."""
    return list(dict.fromkeys(found.capitalize() for found in _STATE.findall(text)))


async def before(turn: Turn) -> list[str]:
    """The states of the last question that named any, in this task or one before it."""
    said = [part.text for message in turn.history for part in message.parts if message.role == turn.message.role]
    for task_id in reversed(turn.references):
        task = await turn.reference(task_id)
        if task is not None:
            said = [part.text for message in task.history for part in message.parts] + said
    return next((states for text in reversed(said) if (states := named(text))), [])
