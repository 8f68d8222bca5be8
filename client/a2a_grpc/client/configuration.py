"""Which agent to call, said outside of the program: in a file or in the environment (specification 8.2, 3rd way)."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from a2a_grpc.client.credentials import ApiKey, BearerToken, ClientCertificate, ClientCredentials, Credentials
from a2a_grpc.client.interfaces import known_bindings
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import InvalidArgumentError, excerpt
from a2a_grpc.wire.headers import SUPPORTED_VERSION

_MAX_BYTES: Final = 256 * 1024
_PREFIX: Final = "A2A_AGENT_"
_SECRETS: Final = ("TOKEN", "API_KEY", "CLIENT_SECRET")
_OTHERS: Final = (
    *("CONFIG", "URL", "BINDING", "TENANT", "EXTENSIONS", "ALLOW_ORIGINS", "CA_FILE"),
    *("CLIENT_ID", "TOKEN_URL", "SCOPES", "CERT_FILE", "KEY_FILE"),
)
VARIABLES: Final = frozenset(
    f"{_PREFIX}{name}" for name in (*_OTHERS, *_SECRETS, *(f"{secret}_FILE" for secret in _SECRETS))
)
"""What `Configuration.from_environment` reads."""
# What a list is in the environment: words between commas.
_LISTS: Final = frozenset({"allow_origins", "extensions", "scopes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """An agent, and how it is called. Give it to `A2AClient.connect` in place of a target.

    With a `binding` (GRPC, HTTP+JSON or JSONRPC) the URL is that of an interface and no card is looked for; `tenant` is
    that of this interface. Without, the URL is any target of `connect`.
    """

    url: str
    binding: str | None = None
    tenant: str = ""
    credentials: Sequence[Credentials] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extensions: Sequence[str] = ()
    allow_origins: Sequence[str] = ()
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError for values that don't go together."""
        if self.binding is not None:
            known_bindings((self.binding,))
        if self.tenant and self.binding is None:
            raise InvalidArgumentError("A tenant needs a binding: without one the agent's card says the tenant.")

    @property
    def target(self) -> "str | a2a_pb2.AgentInterface":
        """What to connect to."""
        if self.binding is None:
            return self.url
        return a2a_pb2.AgentInterface(
            url=self.url,
            protocol_binding=self.binding.upper(),
            protocol_version=SUPPORTED_VERSION,
            tenant=self.tenant,
        )

    @classmethod
    def from_file(cls, path: str | Path, environ: Mapping[str, str] | None = None) -> Self:
        """Read a YAML or JSON file. Its names are those of the fields; a relative path in it begins where the file is.

        `credentials` holds `bearer`, `api_key`, `client_credentials` or `client_certificate`. Each secret in it is a
        reference, `{env: NAME}` or `{file: PATH}`, and never the secret itself. `environ` stands in for the environment
        of the process. Raises InvalidArgumentError, which says where the file is wrong.
        """
        import yaml  # noqa: PLC0415 - most programs have no such file

        file = Path(path)
        try:
            if file.stat().st_size > _MAX_BYTES:
                raise InvalidArgumentError(f"{file} is longer than {_MAX_BYTES} bytes.")
            found = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeError) as error:
            raise InvalidArgumentError(f"The configuration {file} cannot be read: {error}.") from error
        except yaml.YAMLError as error:
            raise InvalidArgumentError(f"{file} is no YAML and no JSON: {error}") from error
        reader = _Reader(str(file), file.parent, os.environ if environ is None else environ)
        return cls(**reader.read(found))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read `A2A_AGENT_URL` and, where they are set, its companions.

        They are `A2A_AGENT_` and BINDING, TENANT, EXTENSIONS, ALLOW_ORIGINS, CA_FILE; TOKEN, API_KEY, CLIENT_SECRET or
        the same with _FILE behind it, for a file that holds the secret; CLIENT_ID, TOKEN_URL, SCOPES; CERT_FILE and
        KEY_FILE. A list has commas. `A2A_AGENT_CONFIG` names a file for `from_file` instead of all the others.
        `environ` stands in for the environment of the process. Raises InvalidArgumentError.
        """
        given = os.environ if environ is None else environ
        found = {name: value.strip() for name, value in given.items() if name.startswith(_PREFIX) and value.strip()}
        if unknown := found.keys() - VARIABLES:
            raise InvalidArgumentError(
                f"{', '.join(sorted(unknown))}: not known; there are {', '.join(sorted(VARIABLES))}."
            )
        values = {name.removeprefix(_PREFIX).lower(): value for name, value in found.items()}
        if file := values.pop("config", None):
            if values:
                raise InvalidArgumentError("A2A_AGENT_CONFIG stands alone: the file says all the rest.")
            return cls.from_file(file, given)
        return cls(**_Reader("the environment", Path(), given).read(_nested(values)))


class _Reader:
    """Turns what a file says into arguments."""

    def __init__(self, source: str, folder: Path, environ: Mapping[str, str]) -> None:
        self._source = excerpt(source)
        self._folder = folder
        self._environ = environ

    def read(self, found: object) -> dict[str, Any]:
        fields: dict[str, Callable[[object], Any]] = {
            "url": self._text,
            "binding": self._text,
            "tenant": self._text,
            "credentials": self._credentials,
            "headers": self._texts_by_name,
            "extensions": self._texts,
            "allow_origins": self._texts,
            "ca_file": self._path,
        }
        values = self._fields(found, fields, "")
        if "url" not in values:
            raise self._wrong("url", "is missing: which agent to call")
        return values

    def _credentials(self, found: object) -> list[Credentials]:
        kinds: dict[str, Callable[[object], Credentials]] = {
            "bearer": lambda value: BearerToken(self._secret(value)),
            "api_key": lambda value: ApiKey(self._secret(value)()),
            "client_credentials": self._client_credentials,
            "client_certificate": self._client_certificate,
        }
        return list(self._fields(found, kinds, "credentials").values())

    def _client_credentials(self, found: object) -> ClientCredentials:
        where = "credentials.client_credentials"
        fields: dict[str, Callable[[object], Any]] = {
            "client_id": self._text,
            "client_secret": lambda value: self._secret(value)(),
            "scopes": self._texts,
            "token_url": self._text,
        }
        values = self._fields(found, fields, where)
        for name in ("client_id", "client_secret"):
            if name not in values:
                raise self._wrong(f"{where}.{name}", "is missing")
        return ClientCredentials(**values)

    def _client_certificate(self, found: object) -> ClientCertificate:
        values = self._fields(
            found, {"cert_file": self._path, "key_file": self._path}, "credentials.client_certificate"
        )
        if len(values) != 2:  # noqa: PLR2004 - a certificate and its key
            raise self._wrong("credentials.client_certificate", "needs a cert_file and a key_file")
        return ClientCertificate(**values)

    def _secret(self, found: object) -> Callable[[], str]:
        """What gives the secret: read anew each time, since it may be replaced while the program runs."""
        if not isinstance(found, dict) or len(found) != 1 or next(iter(found)) not in ("env", "file"):
            raise self._wrong("credentials", "hold a secret itself; write {env: NAME} or {file: PATH}")
        kind, name = next(iter(found.items()))
        name = self._text(name)

        def from_file() -> str:
            try:
                return (self._folder / name).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeError) as error:
                raise InvalidArgumentError(f"The secret in {excerpt(name)} cannot be read: {error}.") from error

        def from_environment() -> str:
            if not self._environ.get(name):
                raise InvalidArgumentError(f"The variable {excerpt(name)} is not set; {self._source} names it.")
            return self._environ[name].strip()

        read = from_file if kind == "file" else from_environment
        read()  # a name that is wrong is told now and not with the first call
        return read

    def _fields(self, found: object, kinds: Mapping[str, Callable[[object], Any]], where: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise self._wrong(where, f"must hold some of {', '.join(kinds)}")
        values: dict[str, Any] = {}
        for name, value in found.items():
            at = f"{where}.{name}" if where else str(name)
            if name not in kinds:
                raise self._wrong(at, f"is not known; there are {', '.join(kinds)}")
            try:
                values[name] = kinds[name](value)
            except ValueError as error:
                raise self._wrong(at, str(error)) from error
        return values

    def _path(self, found: object) -> Path:
        return self._folder / self._text(found)

    @staticmethod
    def _text(found: object) -> str:
        if not isinstance(found, str) or not found:
            raise ValueError("must be text")
        return found

    @staticmethod
    def _texts(found: object) -> list[str]:
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise ValueError("must be a list of texts")
        return found

    @staticmethod
    def _texts_by_name(found: object) -> dict[str, str]:
        if not isinstance(found, dict) or not all(isinstance(one, str) for pair in found.items() for one in pair):
            raise ValueError("must hold texts by name")
        return found

    def _wrong(self, where: str, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self._source}: {excerpt(where) or 'the whole'} {what}.")


def _nested(values: Mapping[str, str]) -> dict[str, Any]:
    """The variables in the form that a file has. Raises: InvalidArgumentError."""
    left: dict[str, Any] = {
        name: [word.strip() for word in value.split(",") if word.strip()] if name in _LISTS else value
        for name, value in values.items()
    }

    def secret(name: str) -> dict[str, str] | None:
        if left.pop(name, None) is not None:
            return {"env": f"{_PREFIX}{name.upper()}"}
        file = left.pop(f"{name}_file", None)
        return {"file": file} if file else None

    def together(**found: Any) -> dict[str, Any]:
        return {name: value for name, value in found.items() if value is not None}

    credentials = together(
        bearer=secret("token"),
        api_key=secret("api_key"),
        client_credentials=together(
            client_id=left.pop("client_id", None),
            client_secret=secret("client_secret"),
            scopes=left.pop("scopes", None),
            token_url=left.pop("token_url", None),
        )
        or None,
        client_certificate=together(cert_file=left.pop("cert_file", None), key_file=left.pop("key_file", None)) or None,
    )
    return {**left, "credentials": credentials}
