"""The door of one agent: its schemes, and which of them a caller has to prove."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth import requirements
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.jwks import Keys
from a2a_grpc.server.auth.ownership import BY_CALLER, Ownership
from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.server.auth.refusals import NotAdmittedError, ScopeMissingError
from a2a_grpc.server.auth.requirements import Alternative, Requirements
from a2a_grpc.server.auth.scheme import Scheme
from a2a_grpc.wire.errors import UnauthenticatedError, UnavailableError

_NONE: Final[Mapping[str, UnauthenticatedError]] = {}


class Gate:
    """Schemes, and requirements of which a caller has to meet one. Without any scheme everybody is anonymous."""

    def __init__(
        self,
        schemes: Sequence[Scheme] = (),
        required: Requirements | None = None,
        ownership: Ownership = BY_CALLER,
        keys: Sequence[Keys] = (),
        *,
        anonymous: bool = False,
    ) -> None:
        """`schemes` in the order in which they say who a caller is; `required`: None: any one of them is enough.

        `keys`: those of the issuers that the schemes trust. With `anonymous` who sends no credentials at all gets in
        as well.

        Raises: ValueError where the requirements name a scheme that is not there, or would let anybody in.
        """
        self._schemes = {scheme.name: scheme for scheme in schemes}
        self._required = (
            tuple(Alternative((requirements.Wanted(name),)) for name in self._schemes) if required is None else required
        )
        self._ownership = ownership
        self._keys = keys
        self._anonymous = anonymous
        if self._schemes and not self._required:
            raise ValueError("no security requirement is left, which would let anybody in")
        self._known(self._required)

    @property
    def open(self) -> bool:
        """Everybody may call, and is anonymous."""
        return not self._schemes

    @property
    def certified(self) -> bool:
        """Nobody gets in without a client certificate, whatever else they have."""
        mutual = {
            name for name, scheme in self._schemes.items() if scheme.card.WhichOneof("scheme") == "mtls_security_scheme"
        }
        return bool(mutual) and not self._anonymous and all(one.schemes & mutual for one in self._required)

    @property
    def challenge(self) -> str:
        """The value of WWW-Authenticate: a challenge of each scheme that could open; "" without any."""
        return self._challenge(self._required)

    def warm(self) -> None:
        """Begin to fetch the keys of the issuers, so that the first call need not wait for them."""
        for keys in self._keys:
            keys.keep()

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers of a request in which credentials may stand, in lower case: what is private varies with them."""
        found: dict[str, None] = {}
        for scheme in self._schemes.values():
            card = scheme.card
            kind = card.WhichOneof("scheme")
            if kind == "api_key_security_scheme":
                place = card.api_key_security_scheme
                if place.location != "query":  # the URL tells such requests apart
                    found["cookie" if place.location == "cookie" else place.name.lower()] = None
            elif kind != "mtls_security_scheme":
                found["authorization"] = None
        return tuple(found)

    def owner_of(self, principal: Principal) -> str:
        """Whose the tasks of the caller are. Raises: PermissionDeniedError."""
        return self._ownership.owner_of(principal)

    def declare(self, card: a2a_pb2.AgentCard) -> None:
        """Write the schemes and the requirements into `card`, in place of its own.

        Raises: ValueError where a skill of the card requires a scheme that is not checked here, or where the card
        declares one.
        """
        for name, declared in card.security_schemes.items():
            if name not in self._schemes or declared != self._schemes[name].card:
                raise ValueError(
                    f"the agent's card declares the security scheme {name}, which is not what this service checks. "
                    "Leave securitySchemes out of the card: they come from the settings"
                )
        for skill in card.skills:
            self._known(requirements.read(skill.security_requirements), f"the skill {skill.id}")
        card.ClearField("security_schemes")
        card.ClearField("security_requirements")
        named = {name for alternative in self._required for name in alternative.schemes}
        named |= {name for skill in card.skills for entry in skill.security_requirements for name in entry.schemes}
        for name, scheme in self._schemes.items():
            if name in named:
                card.security_schemes[name].CopyFrom(scheme.card)
        card.security_requirements.extend(requirements.write(self._required))

    async def admit(self, credentials: Credentials) -> Principal:
        """The caller behind the credentials of a request.

        Raises: UnauthenticatedError where none of the requirements is met; PermissionDeniedError where only scopes are
        missing; UnavailableError where credentials cannot be checked now.
        """
        if not self._schemes:
            return ANONYMOUS
        proved: dict[str, Principal] = {}
        bad: dict[str, UnauthenticatedError] = {}
        away: list[UnavailableError] = []
        for name, scheme in self._schemes.items():
            try:
                principal = await scheme.authenticate(credentials)
            except UnauthenticatedError as error:
                bad[name] = error
            except UnavailableError as error:
                away.append(error)
            else:
                if principal is not None:
                    proved[name] = principal
        scopes = frozenset[str]().union(*(principal.scopes for principal in proved.values()))
        for alternative in self._required:
            if alternative.schemes <= proved.keys() and alternative.scopes <= scopes:
                return self._join(alternative, proved, scopes)
        if away:
            raise away[0]
        if self._anonymous and not proved and not bad:
            return ANONYMOUS
        for alternative in self._required:
            if alternative.schemes <= proved.keys():
                raise ScopeMissingError(alternative.scopes, scopes, self._join(alternative, proved, scopes))
        raise self._refusal(self._required, bad)

    def check(self, principal: Principal, entries: Iterable[a2a_pb2.SecurityRequirement]) -> None:
        """Let a caller that was admitted pass where it meets one of a skill's own requirements, or there are none.

        Raises: UnauthenticatedError where another scheme is wanted; PermissionDeniedError where scopes are missing.
        """
        if not entries:
            return
        required = requirements.read(entries)
        proved = [alternative for alternative in required if alternative.schemes <= principal.schemes]
        if not proved:
            raise self._refusal(required)
        if not any(alternative.scopes <= principal.scopes for alternative in proved):
            raise ScopeMissingError(proved[0].scopes, principal.scopes)

    def _join(self, alternative: Alternative, proved: dict[str, Principal], scopes: frozenset[str]) -> Principal:
        first = next(principal for name, principal in proved.items() if name in alternative.schemes)
        if len(proved) == 1:
            return first
        claims = next((found.claims for name, found in proved.items() if found.claims), {})
        return Principal(first.name, scopes=scopes, claims=claims, schemes=frozenset(proved))

    def _refusal(self, required: Requirements, bad: Mapping[str, UnauthenticatedError] = _NONE) -> NotAdmittedError:
        wanted = requirements.show(required)
        problem = next((error.message for error in bad.values()), "")
        return NotAdmittedError(
            problem or f"Send {self._means(required)}.",
            challenge=self._challenge(required, bad),
            metadata={"schemes": wanted},
            scheme=next(iter(bad), ""),
        )

    def _means(self, required: Requirements) -> str:
        ways = (" and ".join(self._schemes[one.scheme].means for one in alternative.wanted) for alternative in required)
        return ", or ".join(dict.fromkeys(ways))

    def _challenge(self, required: Requirements, bad: Mapping[str, UnauthenticatedError] = _NONE) -> str:
        named = {name for alternative in required for name in alternative.schemes}
        challenges = (
            getattr(bad.get(name), "challenge", "") or scheme.challenge
            for name, scheme in self._schemes.items()
            if name in named
        )
        return ", ".join(dict.fromkeys(challenge for challenge in challenges if challenge))

    def _known(self, required: Requirements, who: str = "the agent") -> None:
        for alternative in required:
            for name in (one.scheme for one in alternative.wanted):
                if name not in self._schemes:
                    known = ", ".join(self._schemes) or "none"
                    raise ValueError(f"{who} requires the security scheme {name}; configured: {known}")


class Gates(Protocol):
    """The gates of all tenants."""

    def of(self, tenant: str) -> Gate:
        """Raises: RouteNotFoundError for a tenant that is not there."""

    def all(self) -> Iterable[Gate]:
        """Each gate once: for requests that name their tenant where it cannot be seen yet."""


class OneGate:
    """The same gate for every tenant."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def of(self, tenant: str) -> Gate:  # noqa: ARG002
        """The gate."""
        return self._gate

    def all(self) -> Iterable[Gate]:
        """The gate."""
        return (self._gate,)
