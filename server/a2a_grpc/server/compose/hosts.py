"""What is hosted: agents with their cards, gates and limits."""

from collections.abc import Callable, Iterator

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent
from a2a_grpc.server.agents.loading import load_agent
from a2a_grpc.server.auth.config import build_gate
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.card.extended import ExtendedCards
from a2a_grpc.server.card.interfaces import with_interfaces
from a2a_grpc.server.card.signing import CardSigner
from a2a_grpc.server.card.validation import validate
from a2a_grpc.server.hosting.hosts import Hosted, Hosts
from a2a_grpc.server.hosting.limits import HostLimits
from a2a_grpc.server.keys import load_signing_keys
from a2a_grpc.server.settings import Settings
from a2a_grpc.wire.sequence import EVENT_SEQUENCE

Dress = Callable[[a2a_pb2.AgentCard], a2a_pb2.AgentCard]


def _as_it_is(card: a2a_pb2.AgentCard) -> a2a_pb2.AgentCard:
    return card


def host_one(settings: Settings, reference: str) -> Hosts:
    """The agent at `MODULE:ATTR`, for callers of all tenants. Raises: ValueError that says what is wrong."""
    _check_addresses(settings)
    return _host_for_all(settings, load_agent(reference))


def host_executor(settings: Settings, reference: str, card: str | None) -> Hosts:
    """The executor of a2a-sdk at `MODULE:ATTR` with the card that `card` names, for callers of all tenants.

    Raises: ValueError that says what is wrong.
    """
    _check_addresses(settings)
    try:
        # It takes half a second, and comes with an extra.
        from a2a_grpc.server.agents.executor import load_executor  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "a2a":
            raise
        raise ValueError("--executor needs a2a-sdk: pip install 'a2a-grpc[executor]'") from None
    return _host_for_all(settings, load_executor(reference, card))


def _host_for_all(settings: Settings, agent: Agent) -> Hosts:
    gate = build_gate(settings.auth.config(), agent.card)
    return Hosts([_host(settings, agent, gate, limits_of(settings))], for_all=True)


def host_many(settings: Settings, path: str) -> Hosts:
    """The agents that a file names, each for the callers of one tenant.

    Raises: ValueError with a line for each problem.
    """
    # YAML takes a twentieth of the time until a service is ready.
    from a2a_grpc.server.hosting.agents_file import AgentsFile  # noqa: PLC0415

    _check_addresses(settings)
    file, base, hosted = AgentsFile(path), limits_of(settings), list[Hosted]()
    for config in file.tenants:
        where = ("agents", config.tenant)
        try:
            agent = load_agent(config.agent)
        except ValueError as error:
            file.complain((*where, "agent"), str(error))
            continue
        try:
            gate = build_gate(settings.auth.config() if config.auth is None else config.auth, agent.card)
        except ValueError as error:
            file.complain((*where, "auth"), str(error))
            continue
        if config.auth is not None and config.auth.mtls and not settings.tls.asks:
            file.complain(
                (*where, "auth", "mtls"), "no listener asks for a certificate; set A2A_TLS_CLIENT_CERT, or leave it out"
            )
            continue
        try:
            hosted.append(
                _host(settings, agent, gate, config.limits.over(base), tenant=config.tenant, dress=config.dressed)
            )
        except ValueError as error:
            file.complain((*where, "card"), str(error))
    file.check()
    return Hosts(hosted)


def open_doors(hosts: Hosts) -> Iterator[str]:
    """A sentence for each agent that anybody may call, and one where its card promises what is not for anybody."""
    for hosted in hosts:
        if hosted.gate.open:
            whom = _whom(hosted)
            yield (
                "Nothing says how callers are known (A2A_API_KEYS, A2A_JWT_ISSUER, A2A_OIDC_ISSUER, A2A_MTLS, or auth "
                f"in a file of agents): anybody may call {whom}. That is for development."
            )
            if hosted.extends:
                yield (
                    f"The card of {whom} declares an extended card, which is for callers that are known, and nobody "
                    "is: GetExtendedAgentCard and skills with scopes are refused."
                )


def shut_doors(settings: Settings, hosts: Hosts) -> Iterator[str]:
    """A sentence for each listener over which nobody can call an agent that needs certificates."""
    shut = [
        (listener, name)
        for listener, name, asks in (
            ("gRPC", "A2A_TLS_GRPC_CLIENT_CERT", settings.tls.grpc_requires),
            ("HTTP", "A2A_TLS_CLIENT_CERT", settings.tls.http_asks),
        )
        if not asks
    ]
    for hosted in hosts:
        if hosted.gate.certified:
            whom = _whom(hosted)
            for listener, name in shut:
                yield (
                    f"Callers of {whom} need a client certificate, and the {listener} listener asks for none: nobody "
                    f"can call it there, so its card does not name {listener}. Set {name}, or let callers in by "
                    "another scheme too."
                )


def _whom(hosted: Hosted) -> str:
    return f"the agent of the tenant {hosted.tenant}" if hosted.tenant else "the agent"


def limits_of(settings: Settings) -> HostLimits:
    """The limits that hold where a tenant has none of its own."""
    return settings.quotas.limits(settings.limits.max_message_bytes)


def _check_addresses(settings: Settings) -> None:
    """Raises: ValueError where the cards cannot say where the service is."""
    for addr, public, addr_name, public_name in (
        (settings.grpc.addr, settings.card.public_grpc_addr, "A2A_GRPC_ADDR", "A2A_PUBLIC_GRPC_ADDR"),
        (settings.http.addr, settings.card.public_http_url, "A2A_HTTP_ADDR", "A2A_PUBLIC_HTTP_URL"),
    ):
        if public is None and not addr.port:
            raise ValueError(
                f"{addr_name} is {addr}, so the system picks the port and the agent card cannot name it. "
                f"Set {public_name}, or give {addr_name} a port."
            )


def _host(
    settings: Settings, agent: Agent, gate: Gate, limits: HostLimits, *, tenant: str = "", dress: Dress = _as_it_is
) -> Hosted:
    """The agent with its cards as they are served: the author's, with what only the service knows.

    `dress` gives a card the fields of a tenant.

    Raises: ValueError that lists what is missing.
    """
    card = _served(settings, gate, dress(agent.card), tenant)
    declared = agent.card.capabilities
    switched_off = declared.HasField("push_notifications") and not declared.push_notifications
    card.capabilities.push_notifications = settings.push.enabled and not switched_off
    card.capabilities.extensions.add(
        uri=EVENT_SEQUENCE, description="Numbers each streamed event in its metadata, for bindings without event ids."
    )
    gate.declare(card)
    problems = validate(card)
    if problems:
        listed = "; ".join(f"{problem.field}: {problem.description}" for problem in problems)
        raise ValueError(f"the agent's card cannot be published: {listed}")
    if gate.open and settings.card.access == "authenticated":
        raise ValueError(
            "A2A_CARD_ACCESS is authenticated, but no scheme of authentication is configured, so nobody could read the "
            "card. Configure one, for example A2A_API_KEYS, or leave A2A_CARD_ACCESS out."
        )
    signer = CardSigner(load_signing_keys(settings.keys.signing.paths), settings.card_jku)
    signer.sign(card)

    def complete(extended: a2a_pb2.AgentCard) -> a2a_pb2.AgentCard:
        served = _served(settings, gate, dress(extended), tenant)
        gate.declare(served)
        return served

    extended = ExtendedCards(agent, card, complete, signer)
    return Hosted(agent, gate, card, limits, tenant=tenant, extended=extended)


def _served(settings: Settings, gate: Gate, card: a2a_pb2.AgentCard, tenant: str) -> a2a_pb2.AgentCard:
    grpc, http = settings.public_grpc_addr, settings.public_http_url
    if gate.certified:
        # An interface in the card is one that callers may choose, and the first one is what they prefer.
        grpc, http = grpc if settings.tls.grpc_requires else "", http if settings.tls.http_asks else ""
    return with_interfaces(card, grpc, http, tenant)
