"""Which of the agent's requirements to meet (specification 4.4.1 and 7.3): the first alternative that can be met."""

from collections.abc import Sequence
from dataclasses import dataclass

from a2a_grpc.client.credentials.base import NO_ACCESS, Access, Credentials, Surroundings, Wanted
from a2a_grpc.client.errors import CredentialsError
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import UnauthenticatedError, excerpt


@dataclass(frozen=True, slots=True)
class Use:
    """Credentials, and what they are used for."""

    credentials: Credentials
    wanted: Wanted | None


class Authenticator:
    """What goes with the calls of one client."""

    def __init__(self, uses: Sequence[Use], around: Surroundings, hint: str = "") -> None:
        """`hint` explains a refusal where nothing was shown."""
        self._uses = tuple(uses)
        self._around = around
        self._hint = hint

    @property
    def shows_something(self) -> bool:
        """Whether anything is shown."""
        return bool(self._uses)

    async def access(self) -> Access:
        """What goes with the next call. Raises: CredentialsError; UnavailableError."""
        merged = NO_ACCESS
        for use in self._uses:
            merged |= await use.credentials.access(use.wanted, self._around)
        return merged

    async def renewed(self, refused: Access) -> Access | None:
        """What to try once more where the agent has refused `refused`; None where there is nothing else.

        Raises: CredentialsError; UnavailableError.
        """
        merged, changed = NO_ACCESS, False
        for use in self._uses:
            fresh = await use.credentials.renewed(use.wanted, self._around, refused)
            changed = changed or fresh is not None
            merged |= fresh or await use.credentials.access(use.wanted, self._around)
        return merged if changed else None

    def explained(self, error: UnauthenticatedError) -> UnauthenticatedError:
        """The agent's refusal, with what it wants where nothing was shown."""
        if self._uses or not self._hint:
            return error
        return UnauthenticatedError(f"{error.message} {self._hint}", metadata=error.metadata)


def choose(card: a2a_pb2.AgentCard | None, credentials: Sequence[Credentials], around: Surroundings) -> Authenticator:
    """How to authenticate to the agent of `card` with these credentials; None: an agent without a card.

    Of alternatives that can be met, one that shows something is preferred to one that shows nothing. A card that only
    declares schemes and requires none is shown what it knows. Raises CredentialsError, which says what the agent wants,
    when credentials are given and the requirements can't be met with them.
    """
    if card is None:
        return Authenticator([Use(one, None) for one in credentials if one.meets(None)], around)
    alternatives = _alternatives(card)
    met = [uses for wanted in alternatives if (uses := _met(wanted, credentials)) is not None]
    chosen = next((uses for uses in met if uses), [])
    if credentials and not met and card.security_requirements:
        raise CredentialsError(f"{_demand(alternatives)} The credentials that were given are not for that.")
    hint = ""
    if card.security_requirements:
        hint = _demand(alternatives)
    elif credentials:
        hint = "Its card asks for none of the credentials that were given, so they were not shown; headers would be."
    return Authenticator(chosen, around, hint)


def _alternatives(card: a2a_pb2.AgentCard) -> list[list[Wanted]]:
    if not card.security_requirements:
        return [[Wanted(name, scheme)] for name, scheme in sorted(card.security_schemes.items())]
    return [
        [
            Wanted(name, card.security_schemes.get(name, a2a_pb2.SecurityScheme()), tuple(scopes.list))
            for name, scopes in sorted(requirement.schemes.items())
        ]
        for requirement in card.security_requirements
    ]


def _met(alternative: Sequence[Wanted], credentials: Sequence[Credentials]) -> list[Use] | None:
    uses = []
    for wanted in alternative:
        found = next((one for one in credentials if one.meets(wanted)), None)
        if found is None:
            return None
        uses.append(Use(found, wanted))
    return uses


def _demand(alternatives: Sequence[Sequence[Wanted]]) -> str:
    wanted = [" together with ".join(_named(one) for one in each) or "nothing" for each in alternatives]
    return f"The agent wants {', or '.join(wanted)}."


def _named(wanted: Wanted) -> str:
    scheme = wanted.scheme
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            place = scheme.api_key_security_scheme
            text = f"an API key in the {excerpt(place.location, 16)} {excerpt(place.name, 64)}"
        case "http_auth_security_scheme":
            text = f"HTTP authentication by {excerpt(scheme.http_auth_security_scheme.scheme, 32)}"
        case "oauth2_security_scheme":
            flow = scheme.oauth2_security_scheme.flows.WhichOneof("flow") or "no grant"
            text = f"a token of OAuth 2.0 ({flow.replace('_', ' ')})"
        case "open_id_connect_security_scheme":
            text = f"a token of {excerpt(scheme.open_id_connect_security_scheme.open_id_connect_url, 128)}"
        case "mtls_security_scheme":
            text = "a client certificate"
        case _:
            text = "something that this client does not know"
    return f'{text} ("{excerpt(wanted.name, 64)}")'
