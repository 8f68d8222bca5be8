"""How the callers of one agent are known, as it is configured, and the gate that comes of it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth import jwks, oauth2, requirements
from a2a_grpc.server.auth.api_key import ApiKeys, Location
from a2a_grpc.server.auth.bearer import Bearer
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.auth.mutual_tls import MutualTls, NamedBy
from a2a_grpc.server.auth.openid_connect import OpenIdConnect
from a2a_grpc.server.auth.ownership import BY_CALLER, Ownership, parse_ownership
from a2a_grpc.server.auth.requirements import Alternative, Requirements, Wanted
from a2a_grpc.server.auth.scheme import Scheme
from a2a_grpc.server.auth.tokens import Issuer, Tokens
from a2a_grpc.wire.errors import excerpt
from a2a_grpc.wire.keys import ALGORITHMS

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")

HOW_TO_HASH = 'printf %s "$KEY" | sha256sum | cut -c1-64'
DEFAULT_ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")


def _texts(value: object) -> object:
    """A single text stands for a list of one."""
    return (value,) if isinstance(value, str) else value


def _pairs(value: object) -> object:
    """Callers with their digests: one, or several as a list."""
    if not isinstance(value, dict):
        return value
    pairs = [(name, one) for name, given in value.items() for one in (given if isinstance(given, list) else [given])]
    for name, one in pairs:
        if not isinstance(one, str) or not _DIGEST.fullmatch(one):
            raise ValueError(
                f"the key of {excerpt(str(name))} must be given as its SHA-256 in 64 hexadecimal digits: {HOW_TO_HASH}"
            )
    return tuple(pairs)


def _algorithm(value: str) -> str:
    if value not in ALGORITHMS:
        raise ValueError(f"the algorithms of tokens are {', '.join(ALGORITHMS)}, not {value[:16]}")
    return value


def _source(value: str) -> str:
    return jwks.check_source(value, plaintext=True)


Texts = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...], BeforeValidator(_texts)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")]
Digest = Annotated[str, Field(pattern=f"^{_DIGEST.pattern}$")]
Scope = Annotated[str, Field(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]{1,128}$")]
Url = Annotated[str, AfterValidator(_source)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ApiKeysConfig(_Part):
    """Callers that have a key."""

    keys: Annotated[tuple[tuple[Name, Digest], ...], BeforeValidator(_pairs)] = Field(min_length=1, repr=False)
    """Names of callers, and the SHA-256 of their keys in hexadecimal; one name may have several keys."""
    location: Location = "header"
    name: Annotated[str, Field(pattern=r"^[a-z0-9_.-]{1,64}$")] = "x-api-key"
    """The name of the header, query parameter or cookie; over gRPC of the metadata."""


class TokensConfig(_Part):
    """Tokens of one issuer. How its keys are found: a JWK Set at a URL or in a file."""

    issuer: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\S+$")]
    audience: Annotated[Texts, Field(min_length=1)]
    jwks_url: Url | None = None
    jwks_file: Path | None = None
    algorithms: Annotated[tuple[Annotated[str, AfterValidator(_algorithm)], ...], Field(min_length=1)] = (
        DEFAULT_ALGORITHMS
    )
    scopes: tuple[Scope, ...] = ()
    """Those that every caller needs."""
    leeway: Annotated[float, Field(ge=0, le=300)] = 30.0
    """Seconds."""


class OAuth2Config(_Part):
    """Where tokens are to be had. They are checked as those of `jwt`, or of `oidc` where there is no `jwt`."""

    flows: Annotated[tuple[oauth2.Flow, ...], BeforeValidator(_texts), Field(min_length=1)]
    token_url: Url
    authorization_url: Url | None = None
    device_url: Url | None = None
    refresh_url: Url | None = None
    metadata_url: Url | None = None
    scopes: Mapping[Scope, str] = Field(default_factory=dict)
    """Each with a sentence on what it allows."""


class AuthConfig(_Part):
    """All of it. Without any scheme everybody may call and is anonymous."""

    api_keys: ApiKeysConfig | None = None
    jwt: TokensConfig | None = None
    oidc: TokensConfig | None = None
    oauth2: OAuth2Config | None = None
    mtls: NamedBy | None = None
    """What of the client certificate says who calls."""
    mtls_allow: Annotated[Texts, Field(min_length=1)] | None = None
    """The names of those whose certificates let them in; None: all that the listener accepts."""
    security: str = ""
    """Which schemes are required; "": those that the agent's card says, or else any one."""
    owner: str = "caller"
    plaintext: Literal[True, False] = False
    """Keys may be fetched over plain HTTP from other machines."""

    def ownership(self) -> Ownership:
        """The rule of `owner`. Raises: ValueError."""
        return parse_ownership(self.owner) if self.owner else BY_CALLER


def build_gate(config: AuthConfig, card: a2a_pb2.AgentCard | None = None, *, anonymous: bool = False) -> Gate:
    """The gate of an agent. `card`: what its author wrote, whose requirements count where `security` says nothing.

    `anonymous`: see Gate.

    Raises: ValueError that says in a sentence what is half-configured or contradicts itself.
    """
    issuers = _Issuers(config)
    schemes = [*issuers.schemes()]
    if config.api_keys is not None:
        keys = config.api_keys
        if keys.location == "header" and keys.name == "authorization" and issuers.all:
            raise ValueError("API keys and tokens cannot both stand in the header authorization")
        schemes.append(ApiKeys(keys.keys, keys.location, keys.name))
    if config.mtls is not None:
        schemes.append(MutualTls(config.mtls, config.mtls_allow))
    elif config.mtls_allow is not None:
        raise ValueError("it is said whose certificates let them in, but not what of a certificate says who calls")
    required = _required(config, card, schemes, issuers)
    ownership = config.ownership()
    if ownership.kind == "claim":
        tokens = {scheme.name for scheme in schemes} & issuers.scopes.keys()
        for alternative in required:
            if not alternative.schemes & tokens:
                raise ValueError(
                    f"tasks are to belong to what the claim {ownership.claim} names, but callers who come by "
                    f"{alternative} have no token with claims"
                )
        if not required:
            raise ValueError(f"tasks are to belong to what the claim {ownership.claim} names, but there are no tokens")
    return Gate(schemes, required, ownership, [issuer.keys for issuer in issuers.all], anonymous=anonymous)


def _required(
    config: AuthConfig, card: a2a_pb2.AgentCard | None, schemes: list[Scheme], issuers: "_Issuers"
) -> Requirements:
    written = requirements.read(card.security_requirements) if card is not None else ()
    if config.security:
        if written:
            raise ValueError(
                "the agent's card has security requirements, and the settings have others; leave one of the two out"
            )
        written = requirements.parse(config.security)
    if not written:
        written = tuple(Alternative((Wanted(scheme.name),)) for scheme in schemes)
    for alternative in written:
        for one in alternative.wanted:
            if one.scopes and one.scheme not in issuers.scopes:
                raise ValueError(f"scopes are required of {one.scheme}, which has none: only tokens have scopes")
    return tuple(
        Alternative(
            tuple(
                Wanted(one.scheme, tuple(dict.fromkeys((*issuers.scopes.get(one.scheme, ()), *one.scopes))))
                for one in alternative.wanted
            )
        )
        for alternative in written
    )


class _Issuers:
    """The issuers that are trusted, and the schemes that are served by their tokens."""

    def __init__(self, config: AuthConfig) -> None:
        self.all: list[Issuer] = []
        self.scopes: dict[str, tuple[str, ...]] = {}
        """Schemes that bring tokens, and the scopes that each of them needs."""
        self._schemes: list[Scheme] = []
        if config.jwt is not None and config.oidc is not None and config.jwt.issuer == config.oidc.issuer:
            raise ValueError(f"{config.jwt.issuer} is configured both as an issuer of its own and by OpenID Connect")
        if config.jwt is not None:
            self.all.append(_issuer(config.jwt, _keys(config.jwt, plaintext=config.plaintext)))
        if config.oidc is not None:
            oidc = config.oidc
            if oidc.jwks_url is not None or oidc.jwks_file is not None:
                raise ValueError("an issuer with OpenID Connect says itself where its keys are")
            try:
                jwks.check_source(oidc.issuer, plaintext=config.plaintext)
            except ValueError as error:
                raise ValueError(f"the issuer {oidc.issuer} cannot be asked for its keys: {error}") from None
            self.all.append(_issuer(oidc, jwks.from_issuer(oidc.issuer, plaintext=config.plaintext)))
        self._tokens = Tokens(self.all)
        for part, kind in ((config.jwt, Bearer), (config.oidc, OpenIdConnect)):
            if part is not None:
                self._add(kind(part.issuer, self._tokens), part)
        if config.oauth2 is not None:
            checked = config.jwt or config.oidc
            if checked is None:
                raise ValueError(
                    "OAuth 2.0 flows are declared, but nothing says how their tokens are checked: name their issuer"
                )
            for flow in dict.fromkeys(config.oauth2.flows):
                flows, metadata = _flows(flow, config.oauth2), config.oauth2.metadata_url or ""
                self._add(oauth2.OAuth2(flow, flows, metadata, checked.issuer, self._tokens), checked)

    def schemes(self) -> Iterator[Scheme]:
        """All of them."""
        yield from self._schemes

    def _add(self, scheme: Scheme, part: TokensConfig) -> None:
        self._schemes.append(scheme)
        self.scopes[scheme.name] = part.scopes


def _issuer(part: TokensConfig, keys: jwks.Keys) -> Issuer:
    if "#" in part.issuer or part.issuer.startswith("cert:"):
        raise ValueError(f"the issuer {part.issuer} has a name that could be mistaken for that of a caller")
    return Issuer(
        name=part.issuer,
        audiences=part.audience,
        keys=keys,
        algorithms=frozenset(part.algorithms),
        leeway=part.leeway,
    )


def _keys(part: TokensConfig, *, plaintext: bool) -> jwks.Keys:
    if (part.jwks_url is None) == (part.jwks_file is None):
        raise ValueError(
            f"nothing says where the keys of {part.issuer} are: a URL or a file"
            if part.jwks_url is None
            else f"the keys of {part.issuer} are to come from a URL and from a file; leave one of the two out"
        )
    if part.jwks_file is not None:
        return jwks.from_file(part.jwks_file)
    assert part.jwks_url is not None  # noqa: S101 -- one of the two is there
    try:
        return jwks.from_url(jwks.check_source(part.jwks_url, plaintext=plaintext))
    except ValueError as error:
        raise ValueError(f"the keys of {part.issuer} cannot be fetched from {part.jwks_url}: {error}") from None


def _flows(flow: oauth2.Flow, config: OAuth2Config) -> a2a_pb2.OAuthFlows:
    refresh = config.refresh_url or ""
    match flow:
        case "client_credentials":
            return a2a_pb2.OAuthFlows(
                client_credentials=a2a_pb2.ClientCredentialsOAuthFlow(
                    token_url=config.token_url, refresh_url=refresh, scopes=config.scopes
                )
            )
        case "authorization_code":
            if config.authorization_url is None:
                raise ValueError("the flow authorization_code needs the URL at which users log in")
            return a2a_pb2.OAuthFlows(
                authorization_code=a2a_pb2.AuthorizationCodeOAuthFlow(
                    authorization_url=config.authorization_url,
                    token_url=config.token_url,
                    refresh_url=refresh,
                    scopes=config.scopes,
                    pkce_required=True,
                )
            )
        case "device_code":
            if config.device_url is None:
                raise ValueError("the flow device_code needs the URL at which devices ask for a code")
            return a2a_pb2.OAuthFlows(
                device_code=a2a_pb2.DeviceCodeOAuthFlow(
                    device_authorization_url=config.device_url,
                    token_url=config.token_url,
                    refresh_url=refresh,
                    scopes=config.scopes,
                )
            )
