"""The settings for people: what is in effect (`a2a-grpc config`), and the table in the docs.

`python -m a2a_grpc.server.settings.table` prints docs/SETTINGS.md.
"""

import sys
from itertools import groupby
from typing import Literal, NamedTuple

from a2a_grpc.server.settings.source import Setting, all_settings
from a2a_grpc.server.settings.tree import Settings
from a2a_grpc.server.settings.values import shown

HEAD = """\
# Settings

<!-- Written by `python -m a2a_grpc.server.settings.table`; a test compares. -->

All settings are environment variables. An empty one counts as unset. Durations are plain numbers of seconds, sizes
plain numbers of bytes. Wrong values are refused at start, all of them at once; a variable that begins with `A2A_` and
is not in this list is ignored with a warning. `a2a-grpc config` prints what is in effect, without secrets.
"""


class EffectiveRow(NamedTuple):
    """What is in effect for one variable. `value` holds no secret."""

    name: str
    value: str
    source: Literal["default", "environment"]


def effective(settings: Settings) -> list[EffectiveRow]:
    """All settings as they are in effect, in the order of the docs, secrets hidden."""
    derived = {
        "A2A_PUBLIC_GRPC_ADDR": settings.public_grpc_addr,
        "A2A_PUBLIC_HTTP_URL": settings.public_http_url,
    }
    rows = []
    for setting in all_settings(Settings):
        group = getattr(settings, setting.group)
        name = setting.variable.name
        given = setting.field in group.model_fields_set
        unset = "none" if given else f"({setting.variable.default})"
        value = derived.get(name) or shown(getattr(group, setting.field)) or unset
        rows.append(EffectiveRow(name, value, "environment" if given else "default"))
    return rows


def markdown() -> str:
    """The text of docs/SETTINGS.md."""
    parts = [HEAD]
    for title, settings in groupby(all_settings(Settings), key=lambda setting: setting.title):
        parts.append(f"\n## {title}\n\n| variable | default | meaning |\n|---|---|---|\n")
        parts.extend(_row(setting) for setting in settings)
    return "".join(parts)


def _row(setting: Setting) -> str:
    variable = setting.variable
    default = variable.default or f"`{setting.default}`"
    unit = f" {variable.unit}" if variable.unit else ""
    return f"| `{variable.name}` | {default}{unit} | {variable.doc} |\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
