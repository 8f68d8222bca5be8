"""Finding the agent that `MODULE:ATTR` names."""

import importlib
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from a2a_grpc.server.agents.agent import Agent
from a2a_grpc.wire.artifact_schemas import schemas_in

_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def load_agent(reference: str) -> Agent:
    """The `Agent` at `MODULE:ATTR`; a module of the working directory is found like any other.

    Raises: ValueError that says what was looked for and what to write; RuntimeError where the module's own code fails.
    """
    module, attribute = load_module(reference, "the agent", "my_agent:agent")
    agent = getattr(module, attribute, None)
    if not isinstance(agent, Agent):
        found = "nothing" if agent is None else f"a {type(agent).__name__}"
        others = [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, Agent)]
        hint = f"; the module has {', '.join(others)}" if others else ""
        raise ValueError(f"{reference!r}: {attribute!r} is {found}, not an Agent{hint}")  # noqa: TRY004 - the caller's text is wrong, not the program
    if not agent.skills:
        raise ValueError(f"{reference!r}: the agent has no skill; decorate a function with @agent.skill(…)")
    missing = [skill.id for skill in agent.card.skills if skill.id not in agent.skills]
    if missing:
        raise ValueError(f"{reference!r}: the card describes {', '.join(missing)}, but no function does it")
    unknown = [id_ for id_ in schemas_in(agent.card) if id_ not in agent.skills]
    if unknown:
        raise ValueError(
            f"{reference!r}: the card has schemas of artifacts for {', '.join(unknown)}, which is no skill"
        )
    return agent


def load_module(reference: str, what: str, example: str) -> tuple[ModuleType, str]:
    """The module of `MODULE:ATTR` and the name in it, which nobody has looked for yet; `what` stands there.

    Raises: as `load_agent`.
    """
    module_name, colon, attribute = reference.partition(":")
    if not (module_name and colon and attribute):
        raise ValueError(f"{reference!r}: name {what} as MODULE:ATTR, such as {example}")
    if not _MODULE.fullmatch(module_name) or module_name.endswith(".py"):
        like = example.partition(":")[0]
        advice = f"such as {Path(module_name).stem}:{attribute}" if module_name.endswith(".py") else f"such as {like}"
        raise ValueError(f"{reference!r}: name the module as `import` would, {advice}, not a file or a folder")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name), attribute
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"{reference!r}: there is no module {error.name!r} here or on the Python path") from None
    except (ValueError, TypeError, OSError) as error:
        raise _explained(reference, error) from error


def _explained(reference: str, error: Exception) -> Exception:
    """What to say of an error in the author's module: a sentence where `Agent` refused it, else the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = Path(__file__).parent
    if Path(frames[-1].filename).parent != ours:
        return RuntimeError(f"{reference!r}: the module failed while it was loaded; the traceback above says where")
    theirs = next((frame for frame in reversed(frames) if Path(frame.filename).parent != ours), frames[0])
    return ValueError(f"{theirs.filename}, line {theirs.lineno}: {error}")
