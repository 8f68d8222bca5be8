"""From what the caller says of an agent to a client that is connected to it."""

import asyncio
import ipaddress
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from a2a_grpc.client.card import CardResolver, card_url, read_card
from a2a_grpc.client.cli.failures import CARD_NOT_FOUND, USAGE, CommandError
from a2a_grpc.client.cli.invocation import REGISTERED, Invocation
from a2a_grpc.client.cli.tokens import kept
from a2a_grpc.client.cli.wirelog import WireLog
from a2a_grpc.client.client import A2AClient
from a2a_grpc.client.credentials import ApiKey, BearerToken, ClientCertificate, Credentials
from a2a_grpc.client.errors import CardError
from a2a_grpc.client.interfaces import BINDINGS, usable
from a2a_grpc.client.registry import RegisteredAgent, Registry
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import RouteNotFoundError, excerpt
from a2a_grpc.wire.headers import A2A_VERSION, SUPPORTED_VERSION

if TYPE_CHECKING:
    from a2a_grpc.client.verifying import CardVerifier

_SCHEMES: Final = ("http://", "https://", "grpc://", "grpcs://")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]+)?(/.*)?")


def reference(said: str) -> str | Path:
    """The URL or the file that an agent card reference means (a2a-cli specification 0.2, 7.2).

    A bare host is asked over https, this machine itself over http. Raises CommandError for what is no reference.
    """
    scheme, separator, _ = said.partition("://")
    if separator and scheme.lower() == "file":
        return _file(Path(unquote(urlsplit(said).path)), said)
    if separator:
        if not said.lower().startswith(_SCHEMES) or not _has_host(said):
            raise _no_agent(said)
        return scheme.lower() + said[len(scheme) :]
    if Path(said).is_file():
        return Path(said)
    host = _HOST.fullmatch(said)
    if not host or not _has_host(f"//{said}") or said.startswith(".") or (said.endswith(".json") and not host[2]):
        raise _no_agent(said)
    return f"{'http' if _this_machine(host[1]) else 'https'}://{said}"


@asynccontextmanager
async def connected(run: Invocation) -> AsyncIterator[A2AClient]:
    """A client of the agent that the arguments name, with their credentials.

    The card is fetched without credentials and without service parameters: they are for the agent's interfaces.
    """
    async with await connect(run) as client:
        run.debug(f"connected to {client.interface.protocol_binding} at {client.interface.url}")
        yield client


async def connect(run: Invocation, *, patience: float = 30.0) -> A2AClient:
    """See `connected`; the client is the caller's to close. `patience`: see `A2AClient.connect`."""
    args = run.args
    target = await resolved(run)
    shown = credentials(run)
    warn_if_insecure(run, shown)
    async with card_resolver(run) as resolver:
        return await A2AClient.connect(
            target,
            headers=headers(run),
            extensions=args.extension,
            bindings=await _bindings(target, args.transport, resolver),
            patience=patience,
            ca_file=args.ca_file,
            resolver=resolver,
            credentials=shown,
            allow_origins=args.allow_origin,
            verify=not args.insecure,
            observer=WireLog(run) if args.debug else None,
            check_artifacts=True,
        )


async def resolved(run: Invocation) -> str | Path | a2a_pb2.AgentCard:
    """Where the agent that the arguments name is, or its card, where a registry has that."""
    agent = await registered(run)
    return reference(agent_of(run)) if agent is None else agent.card


async def registered(run: Invocation) -> RegisteredAgent | None:
    """The agent that the arguments name, where it is one of a registry."""
    said = agent_of(run)
    if not said.startswith(REGISTERED):
        return None
    async with await registry(run) as found:
        try:
            agent = await found.get(said.removeprefix(REGISTERED))
        except RouteNotFoundError as error:
            raise CommandError(CARD_NOT_FOUND, error.message) from error
    if agent.detail == "public":
        run.debug("the registry shows a part of the card only")
    return agent


def agent_key(run: Invocation) -> str:
    """The agent that the arguments name, in the one way that tokens are kept by."""
    said = agent_of(run)
    target = said if said.startswith(REGISTERED) else reference(said)
    if isinstance(target, Path):
        return str(target.resolve())
    return card_url(target) if is_web(target) else target


async def registry(run: Invocation) -> Registry:
    """The registry that the arguments name; the caller closes it. It is not shown what is for agents."""
    args = run.args
    if args.registry is None:
        raise CommandError(USAGE, "A registry is needed: --registry URL, or A2ACLI_REGISTRY.")
    shown: list[Credentials] = []
    if args.registry_bearer:
        shown.append(BearerToken(args.registry_bearer))
    if args.registry_api_key:
        shown.append(ApiKey(args.registry_api_key))
    return await Registry.connect(
        args.registry,
        credentials=shown,
        ca_file=args.ca_file,
        allow_origins=args.allow_origin,
        certificate=_certificate(run),
    )


def agent_of(run: Invocation) -> str:
    """What the arguments say of the agent. Raises CommandError where they say nothing."""
    said: str | None = run.args.agent_card
    if said is None:
        raise CommandError(USAGE, "An agent is needed: --agent-card REF, or A2ACLI_AGENT_CARD.")
    return said


def card_resolver(run: Invocation, verifier: "CardVerifier | None" = None) -> CardResolver:
    """What fetches cards, trusting whom the arguments say."""
    args = run.args
    return CardResolver(
        ca_file=args.ca_file, certificate=_certificate(run), verifier=verifier, verify=not args.insecure
    )


def credentials(run: Invocation) -> list[Credentials]:
    """What the arguments give to show to the agent."""
    args = run.args
    found: list[Credentials] = []
    if args.bearer:
        found.append(BearerToken(args.bearer))
    elif (signed_in := kept(agent_key(run), args.client_secret or "", run.tokens)) is not None:
        found.append(signed_in)
    if args.api_key:
        found.append(ApiKey(args.api_key))
    if files := _certificate(run):
        found.append(ClientCertificate(*files))
    return found


def headers(run: Invocation) -> dict[str, str]:
    """What goes with every call besides credentials."""
    version = run.args.a2a_version
    return dict(run.args.svc_param) | ({} if version == SUPPORTED_VERSION else {A2A_VERSION: version})


def warn_if_insecure(run: Invocation, shown: Sequence[Credentials] = ()) -> None:
    """Say that nobody knows who gets the credentials (12.1): those of the arguments, and what else is `shown`."""
    args = run.args
    if args.insecure:
        run.say("WARNING: --insecure: TLS certificates are not verified, anybody may be at the other end.")
        if shown or run.has_credentials() or getattr(args, "svc_param", None):
            run.say("WARNING: credentials are sent over a connection whose other end is not verified.")


async def _bindings(
    target: str | Path | a2a_pb2.AgentCard, preferred: Sequence[str], resolver: CardResolver
) -> Sequence[str]:
    """The bindings to connect by: the first of the preferred ones that the card has, or all (13.1)."""
    if not preferred:
        return BINDINGS
    if isinstance(target, a2a_pb2.AgentCard):
        return _first(target, preferred)
    if isinstance(target, Path):
        return _first(await asyncio.to_thread(read_card, target), preferred)
    if not is_web(target):
        return BINDINGS
    return _first(await resolver.resolve(target), preferred)


def is_web(target: str) -> bool:
    """Whether a card may be fetched from there."""
    return target.startswith(("http://", "https://"))


def _first(card: a2a_pb2.AgentCard, preferred: Sequence[str]) -> Sequence[str]:
    return next(((binding,) for binding in preferred if _offers(card, binding)), BINDINGS)


def _offers(card: a2a_pb2.AgentCard, binding: str) -> bool:
    try:
        return bool(usable(card, (binding,)))
    except CardError:
        return False


def _certificate(run: Invocation) -> tuple[Path, Path] | None:
    args = run.args
    if args.client_cert is None:
        if args.client_key is not None:
            raise CommandError(USAGE, "--client-key needs --client-cert.")
        return None
    for file in (args.client_cert, args.client_key or args.client_cert):
        if not file.is_file():
            raise CommandError(USAGE, f"There is no file {excerpt(str(file))}.")
    return args.client_cert, args.client_key or args.client_cert


def _file(path: Path, said: str) -> Path:
    if not path.is_file():
        raise _no_agent(said)
    return path


def _has_host(url: str) -> bool:
    """Whether the authority of a URL can be read, and names a host."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _this_machine(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _no_agent(said: str) -> CommandError:
    return CommandError(
        CARD_NOT_FOUND,
        f"{excerpt(said)} is no agent: there is no such file, and it is neither a host nor a URL.",
        "Give a host, a URL (http, https, grpc or grpcs) or the file of a card.",
    )
