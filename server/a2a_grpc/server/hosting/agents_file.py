"""Files that say which agents a service hosts: `a2a-grpc serve agents.yaml`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.card_file import read_fields
from a2a_grpc.server.auth.config import AuthConfig
from a2a_grpc.server.hosting.limits import GROUPS, SLOWEST, Group, HostLimits, Quota
from a2a_grpc.server.hosting.yaml_lines import Where, read
from a2a_grpc.server.store.stock import Rate
from a2a_grpc.wire import rules
from a2a_grpc.wire.errors import excerpt

T = TypeVar("T", bound=BaseModel)

_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}")
_LONGEST: Final = 1000
"""Characters of a sentence on a problem; of what the file holds only a part is repeated."""
# What begins the paths of callers that name no tenant.
_TAKEN: Final = frozenset(route.segments[0].literal.partition(":")[0] for route in rules.ROUTES) - {""}
# Fields of a card that other parts of the service write.
_OURS: Final = {
    "supported_interfaces": "the addresses come from A2A_PUBLIC_GRPC_ADDR and A2A_PUBLIC_HTTP_URL",
    "security_schemes": "the schemes come from auth",
    "security_requirements": "what is required comes from auth.security",
    "signatures": "the service signs with A2A_SIGNING_KEYS",
    "skills": "the agent's code declares its skills",
    "capabilities": "they come from the agent's code and from the settings",
}


_KINDS: Final = {
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
    **dict.fromkeys(("model_type", "dict_type", "mapping_type"), "must hold keys with their values"),
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class RateConfig(_Part):
    """A token bucket."""

    rate: Annotated[float, Field(ge=SLOWEST, le=1e6)]
    """Calls per second."""
    burst: Annotated[float, Field(ge=1, le=1e9)] | None = None

    def rate_of(self) -> Rate:
        """The rate; without a burst a second's worth may come at once."""
        return Rate(self.rate, max(1.0, self.rate) if self.burst is None else self.burst)


def _rate(value: object) -> object:
    return {"rate": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Count = Annotated[int, Field(ge=0, le=10**9)]
Rates = Mapping[Group, Annotated[RateConfig, BeforeValidator(_rate)]]


class QuotaConfig(_Part):
    """Limits of all callers together; 0 means none, and what is not there is as the settings say."""

    rates: Rates | None = None
    calls: Count | None = None
    streams: Count | None = None

    def over(self, base: Quota) -> Quota:
        """These limits, with those of `base` where they say nothing."""
        return replace(
            base,
            rates=base.rates if self.rates is None else {group: rate.rate_of() for group, rate in self.rates.items()},
            calls=_count(self.calls, base.calls),
            streams=_count(self.streams, base.streams),
        )


class CallerQuotaConfig(QuotaConfig):
    """Limits of one caller."""

    tasks: Count | None = None

    def over(self, base: Quota) -> Quota:
        """See QuotaConfig."""
        return replace(super().over(base), tasks=_count(self.tasks, base.tasks))


def _count(given: int | None, otherwise: int | None) -> int | None:
    return otherwise if given is None else given or None


class LimitsConfig(_Part):
    """Limits of one tenant."""

    max_message_bytes: Annotated[int, Field(ge=1024, le=2**31 - 1)] | None = None
    caller: CallerQuotaConfig = CallerQuotaConfig()
    tenant: QuotaConfig = QuotaConfig()

    def over(self, base: HostLimits) -> HostLimits:
        """These limits, with those of `base` where they say nothing."""
        return HostLimits(
            max_message_bytes=self.max_message_bytes or base.max_message_bytes,
            caller=self.caller.over(base.caller),
            tenant=self.tenant.over(base.tenant),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantConfig:
    """What the file says of one tenant."""

    tenant: str
    agent: str
    """MODULE:ATTR."""
    card: a2a_pb2.AgentCard
    """Fields that take the place of those of the agent's own card."""
    auth: AuthConfig | None
    """None: as the settings say."""
    limits: LimitsConfig

    def dressed(self, card: a2a_pb2.AgentCard) -> a2a_pb2.AgentCard:
        """A copy of a card of the agent with the fields of this tenant."""
        copy = a2a_pb2.AgentCard()
        copy.CopyFrom(card)
        for field, _ in self.card.ListFields():
            copy.ClearField(field.name)
        copy.MergeFrom(self.card)
        return copy


class AgentsFileError(ValueError):
    """A file that cannot be used. The text has one line for each problem, with file and line."""


class AgentsFile:
    """A file that was read. Problems are collected, so that whoever wrote it hears of all of them at once."""

    def __init__(self, path: str | Path) -> None:
        """Raises: AgentsFileError where it is no YAML that this could be."""
        self.path = Path(path)
        try:
            self._document = read(self.path)
        except ValueError as error:
            raise AgentsFileError(str(error)) from error
        self._problems: list[tuple[Where, str]] = list(self._document.problems)
        self.tenants = [config for where, entry in self._entries() if (config := self._tenant(where, entry))]

    def complain(self, where: Where, problem: str) -> None:
        """Add a problem, of what stands at `where`."""
        self._problems.append((where, problem))

    def check(self) -> None:
        """Raises: AgentsFileError where there are problems."""
        if self._problems:
            problems = sorted(self._problems, key=lambda problem: self._line(problem[0]))
            raise AgentsFileError("\n".join(dict.fromkeys(self._sentence(*problem) for problem in problems)))

    def _entries(self) -> Iterator[tuple[Where, Any]]:
        value = self._document.value
        if not isinstance(value, dict) or not isinstance(value.get("agents"), dict) or not value["agents"]:
            self.complain(
                ("agents",) if isinstance(value, dict) and "agents" in value else (),
                "the file must hold `agents:`, and under it each tenant with its agent",
            )
            return
        self._no_others((), value, ("agents",))
        for tenant, entry in value["agents"].items():
            if isinstance(tenant, str):
                yield ("agents", tenant), entry

    def _tenant(self, where: Where, entry: Any) -> TenantConfig | None:
        tenant = str(where[-1])
        before = len(self._problems)
        if tenant and not _TENANT.fullmatch(tenant):
            self.complain(
                where,
                "a tenant is part of paths: up to 64 letters, digits and the characters . _ ~ -, "
                'the first a letter or a digit; "" is who names no tenant',
            )
        if tenant in _TAKEN:
            self.complain(where, "no tenant can have this name: it begins the paths of callers that name none")
        if isinstance(entry, str):
            entry = {"agent": entry}
        if not isinstance(entry, dict):
            self.complain(where, "must be MODULE:ATTR, or hold agent, card, auth and limits")
            return None
        self._no_others(where, entry, ("agent", "card", "auth", "limits"))
        agent = entry.get("agent")
        if not isinstance(agent, str) or not agent:
            self.complain((*where, "agent") if "agent" in entry else where, "agent must name the agent as MODULE:ATTR")
        card = self._card((*where, "card"), entry["card"]) if "card" in entry else a2a_pb2.AgentCard()
        auth = self._auth((*where, "auth"), entry["auth"]) if "auth" in entry else None
        limits = self._section((*where, "limits"), entry["limits"], LimitsConfig) if "limits" in entry else None
        if len(self._problems) > before:
            return None
        return TenantConfig(tenant=tenant, agent=str(agent), card=card, auth=auth, limits=limits or LimitsConfig())

    def _card(self, where: Where, value: Any) -> a2a_pb2.AgentCard:
        if not isinstance(value, dict):
            self.complain(where, "must hold fields of an agent card")
            return a2a_pb2.AgentCard()
        card, problems = read_fields(value)
        for field, _ in card.ListFields():
            if field.name in _OURS:
                self.complain(where, f"{field.camelcase_name} cannot be given here: {_OURS[field.name]}")
        for problem in problems:
            field_name = re.split(r"[.:\[]", problem, maxsplit=1)[0]
            self.complain((*where, field_name), problem)
        return card

    def _auth(self, where: Where, value: Any) -> AuthConfig | None:
        if value == "anonymous":
            return AuthConfig()
        if not isinstance(value, dict):
            self.complain(where, "must be `anonymous`, or hold the schemes of authentication")
            return None
        config = self._section(where, self._with_paths(value), AuthConfig)
        if config is not None and not (config.api_keys or config.jwt or config.oidc or config.mtls):
            self.complain(
                where, "holds no scheme, which would let anybody in; if that is meant, write `auth: anonymous`"
            )
        return config

    def _with_paths(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Files are named from where this file is."""
        jwt = value.get("jwt")
        if not isinstance(jwt, dict) or not isinstance(jwt.get("jwks_file"), str):
            return value
        return {**value, "jwt": {**jwt, "jwks_file": str(self.path.parent / jwt["jwks_file"])}}

    def _section(self, where: Where, value: Any, model: type[T]) -> T | None:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            for details in found:
                within = len(details["loc"])
                if any(len(other["loc"]) > within and other["loc"][:within] == details["loc"] for other in found):
                    # Its parts say what is wrong; that there are none left that are right says nothing.
                    continue
                place: Where = (*where, *details["loc"])
                if details["type"] == "extra_forbidden":
                    known = _known(model, details["loc"][:-1])
                    self.complain(place, _no_key(str(details["loc"][-1]), known))
                elif details["type"] == "missing":
                    self.complain(place[:-1], f"{details['loc'][-1]} is missing")
                elif details["type"] == "literal_error" and place[-1] == "[key]":
                    self.complain(place[:-1], f"the groups of operations are {', '.join(GROUPS)}")
                else:
                    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
                    self.complain(place, _KINDS.get(details["type"], message))
        return None

    def _no_others(self, where: Where, value: Mapping[Any, Any], known: tuple[str, ...]) -> None:
        for key in value:
            if isinstance(key, str) and key not in known:
                self.complain((*where, key), _no_key(key, known))

    def _line(self, where: Where) -> int:
        while where and where not in self._document.lines:
            where = where[:-1]
        return self._document.lines.get(where, 1)

    def _sentence(self, where: Where, problem: str) -> str:
        path = ".".join(str(part) if part != "" else '""' for part in where)
        return f"{self.path}, line {self._line(where)}: " + excerpt(f"{path}{': ' if path else ''}{problem}", _LONGEST)


def _no_key(key: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(key, known, n=1)
    return f"there is no such key here; {f'did you mean {near[0]}?' if near else 'there are ' + ', '.join(known)}"


def _known(model: type[BaseModel], inside: tuple[str | int, ...]) -> tuple[str, ...]:
    """The keys that stand at a place of a section."""
    for part in inside:
        field = model.model_fields.get(str(part))
        inner = None if field is None else _model_in(field.annotation)
        if inner is None:
            # A key of a mapping.
            continue
        model = inner
    return tuple(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in get_args(annotation):
        if (found := _model_in(part)) is not None:
            return found
    return None
