"""Rules about the source tree that no linter knows."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOTS = ("server", "client", "generated")
# Settings are the one door for configuration, so that `a2a-grpc config` can print everything that has an effect.
# The commands for operators look there for the one address that they share with the service; the client, for the agent
# that a program is to call, where the program asks it to; the commands that call agents, for their own settings, which
# `a2a-grpc config show` prints.
MAY_READ_THE_ENVIRONMENT = {
    "server/a2a_grpc/server/settings/load.py",
    "client/a2a_grpc/client/admin/cli.py",
    "client/a2a_grpc/client/configuration.py",
    "client/a2a_grpc/client/cli/settings.py",
}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}


def reads_environment(source: Path) -> bool:
    used: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            used.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            used.update(name.name for name in node.names)
    return bool(used & ENVIRONMENT)


def test_only_settings_read_the_environment() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for root in ROOTS
        for path in (ROOT / root).rglob("*.py")
        if reads_environment(path)
    }

    assert readers <= MAY_READ_THE_ENVIRONMENT


def test_no_root_is_a_regular_package() -> None:
    """An `__init__.py` in `a2a_grpc/` would hide the parts of the namespace that live in the other roots."""
    assert [root for root in ROOTS if (ROOT / root / "a2a_grpc" / "__init__.py").exists()] == []


def test_every_package_is_marked_as_typed() -> None:
    packages = {path for root in ROOTS for path in (ROOT / root / "a2a_grpc").iterdir() if path.name != "__pycache__"}

    assert {path.name for path in packages if not (path / "py.typed").exists()} == set()
