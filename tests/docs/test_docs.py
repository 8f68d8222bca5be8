"""What the documents name is there: links, files, modules, settings, and the rows of the tables that copy code."""

import ast
import contextlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.rpc import code_pb2

from a2a_grpc.client.configuration import VARIABLES
from a2a_grpc.command import COMMANDS, main
from a2a_grpc.server.agents import Agent, Turn
from a2a_grpc.server.calls.pipeline import CHAIN
from a2a_grpc.server.store import keys
from a2a_grpc.wire import rules
from a2a_grpc.wire.errors import ERRORS
from tests.docs.documents import ROOT, anchors, blocks, documents, prose, table

PAGES = pytest.mark.parametrize("page", documents(), ids=lambda page: page.relative_to(ROOT).as_posix())

SOURCE_ROOTS = ("server", "client", "generated")
# Where names that are no whole paths begin: `store/keys.py` is the server's, `wire/errors.py` the client's root.
INSIDE = ("", "server/a2a_grpc/server", "server/a2a_grpc", "client/a2a_grpc", "generated/a2a_grpc")
# A command with what follows it up to the end of the line, of the quotation or of the command.
CALL = re.compile(r"a2a-grpc ((?:[a-z][a-z-]*(?: |$)){1,3})([^`|;&>\n]*)")
PROTOCOL = ROOT / "docs" / "PROTOCOL.md"
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
AGENTS = ROOT / "docs" / "AGENTS.md"


@PAGES
def test_links_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        if not linked.exists() or (fragment and fragment not in anchors(linked)):
            broken.append(target)

    assert broken == []


@PAGES
def test_files_that_are_named_exist(page: Path) -> None:
    top = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"agents", "build"}
    missing: list[str] = []
    for name in re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", prose(page)):
        is_source = name.endswith((".py", ".proto", ".lua"))
        if (is_source or name.split("/")[0] in top) and not any((ROOT / root / name).exists() for root in INSIDE):
            missing.append(name)

    assert missing == []


@PAGES
def test_modules_that_are_named_exist(page: Path) -> None:
    """`a2a_grpc.server.store.keys`, or a name in that module."""
    missing = [
        name
        for name in re.findall(r"`(a2a_grpc(?:\.\w+)+)`", prose(page))
        if not any(_is_there(ROOT / root, name.split(".")) for root in SOURCE_ROOTS)
    ]

    assert missing == []


def _is_there(root: Path, parts: list[str]) -> bool:
    for end in range(len(parts), len(parts) - 2, -1):
        place = root.joinpath(*parts[:end])
        if end == len(parts) and (place.is_dir() or place.with_suffix(".py").exists()):
            return True
        module = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
        if end < len(parts) and module.exists() and re.search(rf"\b{parts[-1]}\b", module.read_text(encoding="utf-8")):
            return True
    # Names of the proto, such as a2a_grpc.card.v1.AgentCardService.
    return any(".".join(parts[:-1]) in proto.read_text() for proto in (ROOT / "proto").rglob("*.proto"))


@PAGES
def test_settings_that_are_named_exist(page: Path) -> None:
    known = set(re.findall(r"`(A2A_\w+)`", (ROOT / "docs" / "SETTINGS.md").read_text(encoding="utf-8")))

    # What stands for a value in the file of docker compose, and is no setting of the service.
    composed = set(re.findall(r"\$\{(A2A_\w+)", (ROOT / "deploy/compose/compose.yaml").read_text(encoding="utf-8")))

    named = set(re.findall(r"\bA2A_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")))

    assert named - known - VARIABLES - composed == set()


@PAGES
def test_targets_and_commands_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")

    made = {word for call in re.findall(r"`make ([a-z -]+)", text) for word in call.split()}
    called = set(re.findall(r"`a2a-grpc ([a-z]+(?:-[a-z]+)*)", text))

    assert made - targets == set()
    assert called - set(COMMANDS) == set()


@PAGES
def test_options_that_are_named_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of `a2a-grpc COMMAND … --option`, in a block or in a sentence."""
    unknown: list[str] = []
    for words, rest in CALL.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
        named = set(re.findall(r"(?<!\S)(--[a-z][a-z-]+)", rest)) - {"--help"}
        if named:
            with contextlib.suppress(SystemExit):
                main([*words.split(), "--help"])
            known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
            unknown += [f"{words}{option}" for option in sorted(named - known)]

    assert unknown == []


def test_the_table_of_errors_is_that_of_the_code() -> None:
    """Where it is not, the rows on the right are what the page has to say."""
    expected = [
        f"| {error.kind.name} | `{error.kind.reason}` | {code_pb2.Code.Name(error.kind.code)} | {error.kind.http} "
        f"| {error.kind.jsonrpc} | {' '.join((error.__doc__ or '').split())} |"
        for error in ERRORS
    ]

    assert table(PROTOCOL, "error") == expected


def test_the_table_of_routes_is_that_of_the_proto() -> None:
    def path(route: rules.Route) -> str:
        names = (segment.literal or f"{{{segment.field}}}" for segment in route.segments)
        return f"`{route.verb} /{'/'.join(names)}{route.action}`"

    expected = [
        f"| {name} | {', '.join(path(r) for r in rules.ROUTES if r.method == name and 'tenant' not in r.fields)} |"
        for name in rules.OPERATIONS
    ]

    assert table(PROTOCOL, "operation") == expected


def test_the_layers_are_the_packages_of_the_server() -> None:
    server = ROOT / "server" / "a2a_grpc" / "server"
    there = {
        path.stem
        for path in server.iterdir()
        if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
    } - {"__init__", "__main__"}

    named = {name for row in table(ARCHITECTURE, "layer") for name in re.findall(r"`(\w+)`", row.split("|")[1])}

    assert named == there


def test_the_steps_are_named_in_their_order() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    steps = ", ".join(f"`{step.__name__}`" for step in CHAIN)

    assert steps in " ".join(text.split())


def test_the_keys_are_those_of_the_store() -> None:
    def names(rows: list[str]) -> set[str]:
        return {name for row in rows for name in re.findall(r"`([\w:]+)`", row.split("|")[1])}

    code = [line for line in (keys.__doc__ or "").splitlines() if line.startswith("| `")]

    assert names(table(ARCHITECTURE, "key")) == names(code)


def test_what_a_turn_gives_is_there() -> None:
    """Attributes that an instance gets are looked for in the source of its constructor."""
    source = ast.unparse(ast.parse((ROOT / "server/a2a_grpc/server/agents/turn.py").read_text(encoding="utf-8")))
    rows = [*table(AGENTS, "attribute"), *table(AGENTS, "method")]

    named = {name for row in rows for name in re.findall(r"`(?:await )?(\w+)", row.split("|")[1])}

    assert {name for name in named if not hasattr(Turn, name) and f"self.{name} =" not in source} == set()


def test_every_public_word_of_a_turn_is_in_the_guide() -> None:
    """So that a new one gets its line. Some are the engine's; `say` makes a message and sends nothing."""
    public = {name for name in vars(Turn) if not name.startswith("_")} - {"end", "goes_on", "returned", "say"}
    rows = " ".join([*table(AGENTS, "attribute"), *table(AGENTS, "method")])

    assert {name for name in public if f"`{name}" not in rows and f"await {name}" not in rows} == set()


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example is code that Python takes; those at the top level are agents and skills that can be declared."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "card.yaml").write_text(
        "name: Editor\nskills: [{id: summarize, name: S, description: d, tags: [t]}]\n", encoding="utf-8"
    )
    space: dict[str, Any] = ModuleType("example").__dict__
    examples = [block.text for block in blocks(AGENTS) if block.language == "python"]
    for text in examples:
        # Lines out of the middle of a function are put into one.
        is_fragment = "await " in text and "async def" not in text
        inside = "".join(f"    {line}\n" for line in text.splitlines())
        code = f"async def fragment(turn: Turn, shop: object) -> None:\n{inside}" if is_fragment else text
        exec("from a2a_grpc.pb import a2a_pb2\n" + code, space)  # noqa: S102

    agent = space["agent"]
    assert isinstance(agent, Agent)
    assert {name: skill.attempts for name, skill in agent.skills.items()} == {
        "summarize": None,
        "order": None,
        "pay": 1,
        "count": None,
        "screen": None,
    }
    assert agent.cancel_hook is space["stopped"]
