"""From the environment to the fields of the settings, and from pydantic's errors to sentences."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from a2a_grpc.server.settings.values import HIDDEN, Variable, shown

PREFIX = "A2A_"
ECHOED = 100
"""Characters of a wrong value that a sentence repeats."""


class SettingsError(Exception):
    """Some settings are wrong. `problems` holds one sentence for each, all of them at once."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Group(BaseModel):
    """Settings that belong together. A group's docstring is its title in docs/SETTINGS.md."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class Setting(NamedTuple):
    """One variable and its place in the tree."""

    group: str
    title: str
    field: str
    info: FieldInfo
    variable: Variable

    @property
    def default(self) -> str:
        """The default as text or in words."""
        return self.variable.default or shown(self.info.default)

    @property
    def expects(self) -> str:
        """Completes "must be …"."""
        if self.variable.expects:
            return self.variable.expects
        kind = self.info.annotation
        if kind is bool:
            return "true or false"
        if get_origin(kind) is Literal:
            return "one of " + ", ".join(get_args(kind))
        what = "a whole number" if kind is int else "a number"
        if self.variable.unit:
            what += f" of {self.variable.unit}"
        bounds = {type(bound): bound for bound in self.info.metadata}
        least, above, most = (bounds.get(kind) for kind in (annotated_types.Ge, annotated_types.Gt, annotated_types.Le))
        if isinstance(above, annotated_types.Gt):
            what += f" above {above.gt}"
        if isinstance(least, annotated_types.Ge):
            what += f", at least {least.ge}"
        if isinstance(most, annotated_types.Le):
            what += f" and at most {most.le}" if least or above else f", at most {most.le}"
        return what


def all_settings(tree: type[BaseModel]) -> Iterator[Setting]:
    """Every setting of the tree, in order."""
    for group, outer in tree.model_fields.items():
        if isinstance(outer.annotation, type) and issubclass(outer.annotation, Group):
            for field, info in outer.annotation.model_fields.items():
                variable = next(part for part in info.metadata if isinstance(part, Variable))
                yield Setting(group, (outer.annotation.__doc__ or "").rstrip("."), field, info, variable)


class EnvironmentSource(PydanticBaseSettingsSource):
    """Gives each field the text of its variable. An empty variable counts as unset."""

    def __init__(self, tree: type[BaseSettings], environ: Mapping[str, str]) -> None:
        super().__init__(tree)
        self._environ = environ

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """The texts for one group."""
        texts: dict[str, Any] = {}
        for setting in all_settings(self.settings_cls):
            text = self._environ.get(setting.variable.name, "").strip()
            if setting.group == field_name and text:
                texts[setting.field] = text
        return texts, field_name, True

    def __call__(self) -> dict[str, Any]:
        """The texts for the whole tree."""
        groups = {setting.group for setting in all_settings(self.settings_cls)}
        fields = self.settings_cls.model_fields
        values = {group: self.get_field_value(fields[group], group)[0] for group in groups}
        # The convention for where the data of a user's programs goes: https://specifications.freedesktop.org/basedir
        xdg = self._environ.get("XDG_DATA_HOME", "")
        if Path(xdg).is_absolute():
            values["store"].setdefault("data_dir", Path(xdg) / "a2a-grpc")
        return {**values, "unknown": tuple(_unknown(self.settings_cls, self._environ))}


# Kubernetes describes each Service to every pod of its namespace in variables like these; one named "a2a-grpc" makes
# A2A_GRPC_PORT=tcp://10.0.0.7:50051.
_SERVICE_LINK = re.compile(
    r"A2A_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def _unknown(tree: type[BaseModel], environ: Mapping[str, str]) -> Iterator[str]:
    known = [setting.variable.name for setting in all_settings(tree)]
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and not _SERVICE_LINK.fullmatch(name):
            near = difflib.get_close_matches(name, known, n=1)
            yield f"{name} is not a setting and is ignored." + (f" Did you mean {near[0]}?" if near else "")


def problems_of(error: ValidationError, tree: type[BaseModel], environ: Mapping[str, str]) -> list[str]:
    """A sentence for each value that was refused: the variable, what it is, and what it must be."""
    settings = {(setting.group, setting.field): setting for setting in all_settings(tree)}
    problems: dict[str, str] = {}
    for details in error.errors(include_url=False):
        group, field = details["loc"][:2]
        setting = settings[str(group), str(field)]
        name = setting.variable.name
        text = environ[name].strip()
        # A URL with an @ carries a password, also where it has no business.
        got = HIDDEN if setting.variable.secret or "@" in text else repr(text[:ECHOED])
        if details["type"] == "value_error":
            problems[name] = f"{name} is {got}, but {details['ctx']['error']}."
        else:
            problems[name] = f"{name} is {got}, but it must be {setting.expects}."
    return list(problems.values())
