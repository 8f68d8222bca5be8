"""An agent that reviews code: `a2a-grpc serve examples.code_review.agent:agent`, and `client.py` beside it.

It does not stream, so its callers ask for the task until it has ended. A request of the protocol has no field for the
skill: the name of the file that it sends decides.
"""

import ast
import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Reject, Turn

agent = Agent(
    name="code-review-agent",
    description="Reviews Python and TypeScript code.",
    version="1.0.0",
    streaming=False,
    output_modes=["application/json"],
)
Review = Callable[[str], Iterator[tuple[int, str]]]

_TYPESCRIPT: Final = {
    r"\bvar\b": "let or const says how long a name lives",
    r":\s*any\b": "any switches the type checker off",
    r"[^=!]==[^=]": "=== compares without conversion",
}

FINDINGS: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["findings"],
    "properties": {
        "findings": {
            "type": "array",
            "items": {"type": "object", "required": ["line", "advice"], "properties": {"line": {"minimum": 1}}},
        }
    },
}


@agent.skill(
    id="review-python",
    name="Review Python",
    description="Reviews Python code.",
    tags=["code-review", "python"],
    artifacts={"findings": FINDINGS},
)
async def review_python(turn: Turn) -> None:
    await review(turn, python)


@agent.skill(
    id="review-typescript",
    name="Review TypeScript",
    description="Reviews TypeScript code.",
    tags=["code-review", "typescript"],
    artifacts={"findings": FINDINGS},
)
async def review_typescript(turn: Turn) -> None:
    await review(turn, typescript)


@agent.router
def route(message: a2a_pb2.Message) -> str:
    is_typescript = any(part.filename.endswith((".ts", ".tsx")) for part in message.parts)
    return "review-typescript" if is_typescript else "review-python"


async def review(turn: Turn, look: Review) -> None:
    if not turn.text.strip():
        raise Reject("Send the code as text.")
    # Long code takes long to read, and other turns go on meanwhile.
    found = await asyncio.to_thread(lambda: list(look(turn.text)))
    findings: list[dict[str, Any]] = [{"line": line, "advice": advice} for line, advice in sorted(found)]
    await turn.artifact("findings", data={"findings": findings})


def python(code: str) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        yield error.lineno or 1, "this is no Python"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "a bare except also catches Ctrl-C"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for default in node.args.defaults:
                if isinstance(default, ast.List | ast.Dict | ast.Set):
                    yield default.lineno, "a default that can change is shared by all calls"


def typescript(code: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(code.splitlines(), start=1):
        for pattern, advice in _TYPESCRIPT.items():
            if re.search(pattern, line):
                yield number, advice
