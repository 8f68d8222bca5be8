"""The settings of authentication, for an agent that is served alone, and what they come to."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from a2a_grpc.server.auth import jwks, requirements
from a2a_grpc.server.auth.config import (
    DEFAULT_ALGORITHMS,
    ApiKeysConfig,
    AuthConfig,
    OAuth2Config,
    TokensConfig,
    build_gate,
)
from a2a_grpc.server.auth.oauth2 import NAMES as FLOWS
from a2a_grpc.server.auth.ownership import parse_ownership
from a2a_grpc.server.settings.source import Group
from a2a_grpc.server.settings.values import (
    ApiKeys,
    ApiKeysText,
    HeaderName,
    LowerCase,
    Seconds,
    Variable,
    split_list,
)
from a2a_grpc.wire.keys import ALGORITHMS

T = TypeVar("T")


@dataclass(frozen=True)
class Words:
    """Texts with something between them."""

    values: tuple[str, ...] = ()
    between: str = ","

    def __str__(self) -> str:
        return self.between.join(self.values)


def _parsed(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _words(text: str) -> Words:
    return Words(split_list(text))


def _names(text: str) -> Words:
    """Subjects have commas in them, and a semicolon in one of its parts with a backslash (RFC 4514)."""
    names = tuple(name.strip() for name in re.split(r"(?<!\\);", text))
    if not all(names):
        raise ValueError("it must be names of certificates with one semicolon between them")
    return Words(names, between=";")


def _one_of(known: tuple[str, ...]) -> Callable[[str], Words]:
    def parse(text: str) -> Words:
        words = _words(text)
        for word in words.values:
            if word not in known:
                raise ValueError(f"{word[:32]!r} is none of {', '.join(known)}")
        return words

    return parse


_SCOPE = re.compile(r"[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,128}")


def _scopes(text: str) -> Words:
    words = Words(split_list(",".join(text.split())))
    for word in words.values:
        if not _SCOPE.fullmatch(word):
            raise ValueError("scopes are words of printable ASCII without quotes, with spaces or commas between them")
    return words


def _described_scopes(text: str) -> Words:
    words = _words(text)
    for word in words.values:
        if not _SCOPE.fullmatch(word.partition("=")[0].strip()):
            raise ValueError("it must be SCOPE=what it allows, with commas between the scopes")
    return words


def _security(text: str) -> str:
    if text:
        requirements.parse(text)
    return text


def _owner(text: str) -> str:
    return str(parse_ownership(text))


def _no_space(text: str) -> str:
    if any(c.isspace() for c in text):
        raise ValueError("it must be exactly what the tokens have as their issuer, without spaces")
    return text


def _url(text: str) -> str:
    return jwks.check_source(text, plaintext=True)


UrlText = Annotated[str, _parsed(_url)]
WordsText = Annotated[Words, _parsed(_words)]
AlgorithmsText = Annotated[Words, _parsed(_one_of(ALGORITHMS))]
FlowsText = Annotated[Words, _parsed(_one_of(tuple(FLOWS)))]
ScopesText = Annotated[Words, _parsed(_scopes)]
DescribedScopesText = Annotated[Words, _parsed(_described_scopes)]
NamesText = Annotated[Words, _parsed(_names)]
SecurityText = Annotated[str, _parsed(_security)]
OwnerText = Annotated[str, _parsed(_owner)]
IssuerText = Annotated[str, _parsed(_no_space)]


class AuthSettings(Group):
    """Authentication."""

    api_keys: Annotated[
        ApiKeysText,
        Variable(
            name="A2A_API_KEYS",
            secret=True,
            default="none",
            doc="The callers and the SHA-256 of their keys, as NAME:HEX with commas between them. "
            "Without any scheme of this table callers are anonymous, which is for development.",
        ),
    ] = ApiKeys()
    api_key_header: Annotated[
        HeaderName,
        Variable(name="A2A_API_KEY_HEADER", doc="The header, and gRPC metadata key, that carries the API key."),
    ] = "x-api-key"
    api_key_in: Annotated[
        Literal["header", "query", "cookie"],
        LowerCase,
        Variable(
            name="A2A_API_KEY_IN",
            doc="Where the API key stands in HTTP requests. URLs get into logs and histories of others; "
            "prefer the header. Over gRPC it is metadata in any case.",
        ),
    ] = "header"
    api_key_name: Annotated[
        HeaderName | None,
        Variable(
            name="A2A_API_KEY_NAME",
            default="none",
            doc="The query parameter or cookie that carries the API key, and the gRPC metadata key. Lower case.",
        ),
    ] = None
    jwt_issuer: Annotated[
        IssuerText | None,
        Variable(name="A2A_JWT_ISSUER", default="none", doc="The issuer (`iss`) whose tokens let callers in."),
    ] = None
    jwt_audience: Annotated[
        WordsText,
        Variable(
            name="A2A_JWT_AUDIENCE",
            default="none",
            doc="What tokens must name as their audience (`aud`); one of these, with commas between them.",
        ),
    ] = Words()
    jwt_jwks_url: Annotated[
        UrlText | None,
        Variable(name="A2A_JWT_JWKS_URL", default="none", doc="Where the issuer publishes its keys."),
    ] = None
    jwt_jwks_file: Annotated[
        Path | None,
        Variable(
            name="A2A_JWT_JWKS_FILE",
            default="none",
            doc="A file with its keys (a JWK Set: JSON with `keys`), in place of the URL. It is read again when a "
            "token names another key.",
        ),
    ] = None
    jwt_algorithms: Annotated[
        AlgorithmsText,
        Variable(name="A2A_JWT_ALGORITHMS", doc=f"How tokens may be signed; of {', '.join(ALGORITHMS)}."),
    ] = Words(DEFAULT_ALGORITHMS)
    jwt_scopes: Annotated[
        ScopesText,
        Variable(name="A2A_JWT_SCOPES", default="none", doc="The scopes that every token needs."),
    ] = Words()
    jwt_leeway: Annotated[
        Seconds,
        Field(le=300),
        Variable(name="A2A_JWT_LEEWAY", unit="seconds", doc="By how much the clocks of issuer and service may differ."),
    ] = 30
    jwks_plaintext: Annotated[
        bool,
        Variable(
            name="A2A_JWKS_PLAINTEXT",
            doc="Keys may be fetched over plain HTTP from other machines. Whoever can change what comes over the "
            "network can then sign tokens.",
        ),
    ] = False
    oidc_issuer: Annotated[
        UrlText | None,
        Variable(
            name="A2A_OIDC_ISSUER",
            default="none",
            doc="An OpenID Connect provider whose tokens let callers in; its discovery document says where its keys "
            "are. `A2A_JWT_AUDIENCE`, `_ALGORITHMS`, `_SCOPES` and `_LEEWAY` hold for its tokens too.",
        ),
    ] = None
    oauth2_flows: Annotated[
        FlowsText,
        Variable(
            name="A2A_OAUTH2_FLOWS",
            default="none",
            doc=f"How callers get tokens, for the card: of {', '.join(FLOWS)}. The tokens are those of "
            "`A2A_JWT_ISSUER`, or else of `A2A_OIDC_ISSUER`.",
        ),
    ] = Words()
    oauth2_token_url: Annotated[
        UrlText | None, Variable(name="A2A_OAUTH2_TOKEN_URL", default="none", doc="Where tokens are to be had.")
    ] = None
    oauth2_authorization_url: Annotated[
        UrlText | None,
        Variable(
            name="A2A_OAUTH2_AUTHORIZATION_URL",
            default="none",
            doc="Where users log in, for the flow authorization_code; it requires PKCE.",
        ),
    ] = None
    oauth2_device_url: Annotated[
        UrlText | None,
        Variable(
            name="A2A_OAUTH2_DEVICE_URL",
            default="none",
            doc="Where devices ask for a code, for the flow device_code.",
        ),
    ] = None
    oauth2_refresh_url: Annotated[
        UrlText | None,
        Variable(name="A2A_OAUTH2_REFRESH_URL", default="none", doc="Where tokens are renewed, if elsewhere."),
    ] = None
    oauth2_metadata_url: Annotated[
        UrlText | None,
        Variable(
            name="A2A_OAUTH2_METADATA_URL",
            default="none",
            doc="Where the authorization server describes itself (RFC 8414).",
        ),
    ] = None
    oauth2_scopes: Annotated[
        DescribedScopesText,
        Variable(
            name="A2A_OAUTH2_SCOPES",
            default="none",
            doc="The scopes that there are, for the card, as SCOPE=what it allows, with commas between them.",
        ),
    ] = Words()
    mtls: Annotated[
        Literal["subject", "san"] | None,
        LowerCase,
        Variable(
            name="A2A_MTLS",
            default="off",
            expects="subject or san",
            doc="Lets callers in by their client certificate, under its `subject` or the first of its alternative "
            "names (`san`: a URI before a DNS name before an address).",
        ),
    ] = None
    mtls_allow: Annotated[
        NamesText,
        Variable(
            name="A2A_MTLS_ALLOW",
            default="all certificates of the authorities",
            doc="The names of those whose certificates let them in, with semicolons between them, as callers are "
            "known: `CN=agent,O=Example` with `subject`, `DNS:agent.example.com` or `URI:spiffe://example.com/agent` "
            "with `san`. `DNS:*.example.com` is every name below, `URI:spiffe://example.com/a/*` every path below.",
        ),
    ] = Words()
    security: Annotated[
        SecurityText,
        Variable(
            name="A2A_SECURITY",
            default="any one scheme",
            doc="Which schemes a caller has to prove: alternatives with commas between them, + between what goes "
            "together, scopes in brackets: `apiKey, bearer(read)+mtls`. The schemes: apiKey, bearer, openIdConnect, "
            f"{', '.join(FLOWS.values())}, mtls.",
        ),
    ] = ""
    owner: Annotated[
        OwnerText,
        Variable(
            name="A2A_OWNER",
            doc="Whose a task is: of the `caller` alone, of all whose token has the same value in a claim "
            "(`claim:NAME`), or of all callers of the `tenant`.",
        ),
    ] = "caller"

    @property
    def closed(self) -> bool:
        """Callers have to say who they are."""
        return bool(self.api_keys or self.jwt_issuer or self.oidc_issuer or self.mtls)

    def problems(self) -> Iterator[str]:
        """A sentence for each scheme that is configured by half, and for what contradicts itself."""
        before = list(self._halves())
        yield from before
        if not before:
            try:
                build_gate(self.config())
            except ValidationError as error:
                for wrong in error.errors(include_url=False):
                    where = ".".join(str(part) for part in wrong["loc"])
                    yield f"The settings of authentication do not fit together: {where}: {wrong['msg']}."
            except ValueError as error:
                yield f"The settings of authentication do not fit together: {error}."

    def config(self) -> AuthConfig:
        """What the settings come to. To be asked for only where there are no `problems`."""
        return AuthConfig(
            api_keys=ApiKeysConfig(
                keys=self.api_keys.digests,
                location=self.api_key_in,
                name=self.api_key_header if self.api_key_in == "header" else self.api_key_name or "",
            )
            if self.api_keys
            else None,
            jwt=self._tokens(self.jwt_issuer, own=True) if self.jwt_issuer else None,
            oidc=self._tokens(self.oidc_issuer, own=False) if self.oidc_issuer else None,
            oauth2=self._oauth2(),
            mtls=self.mtls,
            mtls_allow=self.mtls_allow.values or None,
            security=self.security,
            owner=self.owner,
            plaintext=self.jwks_plaintext,
        )

    def _tokens(self, issuer: str, *, own: bool) -> TokensConfig:
        return TokensConfig(
            issuer=issuer,
            audience=self.jwt_audience.values,
            jwks_url=self.jwt_jwks_url if own else None,
            jwks_file=self.jwt_jwks_file if own else None,
            algorithms=self.jwt_algorithms.values,
            scopes=self.jwt_scopes.values,
            leeway=self.jwt_leeway,
        )

    def _oauth2(self) -> OAuth2Config | None:
        if not self.oauth2_flows.values:
            return None
        described = (word.partition("=") for word in self.oauth2_scopes.values)
        return OAuth2Config.model_validate(
            {
                "flows": self.oauth2_flows.values,
                "token_url": self.oauth2_token_url,
                "authorization_url": self.oauth2_authorization_url,
                "device_url": self.oauth2_device_url,
                "refresh_url": self.oauth2_refresh_url,
                "metadata_url": self.oauth2_metadata_url,
                "scopes": {name.strip(): text.strip() for name, _, text in described},
            }
        )

    def _halves(self) -> Iterator[str]:
        keys = bool(self.api_keys)
        if self.api_key_in != "header" and not self.api_key_name:
            yield f"A2A_API_KEY_IN is {self.api_key_in}, but A2A_API_KEY_NAME does not say under which name."
        if self.api_key_in == "header" and self.api_key_name:
            yield "A2A_API_KEY_NAME is set, but keys stand in the header that A2A_API_KEY_HEADER names."
        if not keys and (self.api_key_in != "header" or "api_key_header" in self.model_fields_set):
            yield "It is said where API keys stand, but A2A_API_KEYS names none, so anybody could call. Set it too."
        issuers = [
            name
            for name, value in (("A2A_JWT_ISSUER", self.jwt_issuer), ("A2A_OIDC_ISSUER", self.oidc_issuer))
            if value
        ]
        sources = [
            name
            for name, value in (("A2A_JWT_JWKS_URL", self.jwt_jwks_url), ("A2A_JWT_JWKS_FILE", self.jwt_jwks_file))
            if value
        ]
        if issuers and not self.jwt_audience.values:
            yield (
                f"{issuers[0]} is set and A2A_JWT_AUDIENCE is not: tokens that the issuer gave for other services "
                "would open this one. Set it to what tokens for this service have in aud."
            )
        if not issuers and (
            set_ := self._set(
                "jwt_audience", "jwt_jwks_url", "jwt_jwks_file", "jwt_scopes", "jwt_algorithms", "jwt_leeway",
                *(("jwks_plaintext",) if self.jwks_plaintext else ()),
            )
        ):  # fmt: skip
            yield f"{set_} is set, but neither A2A_JWT_ISSUER nor A2A_OIDC_ISSUER says whose tokens are taken."
        if self.jwt_issuer and not sources:
            yield (
                "A2A_JWT_ISSUER is set, but neither A2A_JWT_JWKS_URL nor A2A_JWT_JWKS_FILE says where its keys are. "
                "Set one of them, or A2A_OIDC_ISSUER in place of A2A_JWT_ISSUER."
            )
        if self.jwt_issuer and len(sources) > 1:
            yield "A2A_JWT_JWKS_URL and A2A_JWT_JWKS_FILE are both set. Leave one of them out."
        if issuers and not self.jwt_issuer and sources:
            yield f"{sources[0]} is set without A2A_JWT_ISSUER; the keys of A2A_OIDC_ISSUER are found by discovery."
        if self.oauth2_flows.values:
            if not issuers:
                yield (
                    "A2A_OAUTH2_FLOWS is set, but neither A2A_JWT_ISSUER nor A2A_OIDC_ISSUER says how the tokens are "
                    "checked."
                )
            for flow, name, value in (
                ("", "A2A_OAUTH2_TOKEN_URL", self.oauth2_token_url),
                ("authorization_code", "A2A_OAUTH2_AUTHORIZATION_URL", self.oauth2_authorization_url),
                ("device_code", "A2A_OAUTH2_DEVICE_URL", self.oauth2_device_url),
            ):
                if not value and (not flow or flow in self.oauth2_flows.values):
                    yield f"A2A_OAUTH2_FLOWS is {self.oauth2_flows} and needs {name}."
        elif set_ := self._set(
            "oauth2_token_url", "oauth2_authorization_url", "oauth2_device_url", "oauth2_refresh_url",
            "oauth2_metadata_url", "oauth2_scopes",
        ):  # fmt: skip
            yield f"{set_} is set, but A2A_OAUTH2_FLOWS names no flow."
        if self.mtls_allow.values and not self.mtls:
            yield "A2A_MTLS_ALLOW says whose certificates let them in, but A2A_MTLS is off. Set it too."
        if self.security and not self.closed:
            yield "A2A_SECURITY requires schemes, and none is configured."

    def _set(self, *fields: str) -> str:
        """The variable of the first of `fields` that is set."""
        for field in fields:
            if field in self.model_fields_set:
                return next(part.name for part in type(self).model_fields[field].metadata if isinstance(part, Variable))
        return ""
