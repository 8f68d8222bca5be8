"""`a2a-grpc discover`: which agents there are, at addresses or in a registry."""

from argparse import ArgumentParser
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from a2a_grpc.client.card import read_card
from a2a_grpc.client.cli import options
from a2a_grpc.client.cli.agent import card_resolver, is_web, reference, registry, warn_if_insecure
from a2a_grpc.client.cli.failures import CARD_NOT_FOUND, USAGE, CommandError
from a2a_grpc.client.cli.invocation import Invocation, Parser, run
from a2a_grpc.client.cli.output import write_json
from a2a_grpc.client.cli.settings import Settings
from a2a_grpc.client.cli.text import TextPrinter
from a2a_grpc.client.registry import Capability, Health, RegisteredAgent, Signature
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson

_WORDS = ("text", "skill", "tag", "provider", "binding", "input_mode", "output_mode", "health", "signature")


@dataclass(frozen=True, slots=True)
class _Found:
    reference: str
    """What `--agent-card` takes."""
    card: a2a_pb2.AgentCard
    facts: dict[str, str] = field(default_factory=dict)
    """What the registry says of it, by the names of JSON."""


def discover(argv: Sequence[str]) -> int:
    """Print the agents that are found. Returns the exit code."""
    return run(build, argv)


def build(settings: Settings) -> ArgumentParser:
    parser = Parser(
        prog="a2a-grpc discover",
        description="Print which agents there are: at the addresses that are named, or else in a registry.",
    )
    parser.add_argument("refs", metavar="REF", nargs="*", help="an agent: its host, its URL, or the file of its card")
    names = ("timeout", "client-cert", "client-key", "allow-origin", "ca-file", "insecure")
    options.add(parser, (*options.OUTPUT, *options.REGISTRY, *names), settings)
    group = parser.add_argument_group("what a registry is asked for")
    group.add_argument("--text", default="", metavar="WORDS", help="words in the name, the description or the skills")
    group.add_argument("--skill", default="", metavar="ID", help="agents with this skill")
    group.add_argument("--tag", default="", metavar="TAG", help="agents with a skill that has this tag")
    group.add_argument("--provider", default="", metavar="NAME", help="agents of this organization")
    group.add_argument("--binding", default="", metavar="BINDING", help="agents with this binding, such as GRPC")
    group.add_argument("--input-mode", default="", metavar="TYPE", help="agents that take this media type")
    group.add_argument("--output-mode", default="", metavar="TYPE", help="agents that give this media type")
    group.add_argument(
        "--capability",
        action="append",
        default=[],
        choices=get_args(Capability),
        metavar="NAME",
        help=f"agents with this capability: {', '.join(get_args(Capability))}; repeatable",
    )
    group.add_argument(
        "--health", choices=get_args(Health), metavar="STATE", help=f"agents that are {', '.join(get_args(Health))}"
    )
    group.add_argument(
        "--signature",
        choices=get_args(Signature),
        metavar="STATE",
        help=f"agents whose card is {', '.join(get_args(Signature))}",
    )
    group.add_argument("--limit", type=options.count, metavar="N", help="at most so many (default: all)")
    parser.set_defaults(action=_discover)
    return parser


async def _discover(run: Invocation) -> int:
    args = run.args
    asked = bool(args.capability or any(getattr(args, word) for word in _WORDS))
    if args.refs and asked:
        raise CommandError(USAGE, "A registry is searched, or addresses are asked; not both.")
    warn_if_insecure(run)
    shown: list[dict[str, Any]] = []
    async with aclosing(_named(run) if args.refs else _searched(run)) as agents:
        async for found in agents:
            if args.limit is not None and len(shown) >= args.limit:
                break
            shown.append(_as_json(found))
            if isinstance(run.printer, TextPrinter):
                _print(run.printer, found)
            elif args.stream:
                write_json(shown[-1], run.out)
    if isinstance(run.printer, TextPrinter):
        run.printer.field("Agents", str(len(shown)))
    elif not args.stream:
        write_json({"agents": shown}, run.out)
    return 0


async def _named(run: Invocation) -> AsyncGenerator[_Found, None]:
    """The agents at the addresses. Raises for the first that is none."""
    async with card_resolver(run) as resolver:
        for said in run.args.refs:
            target = reference(said)
            if isinstance(target, Path):
                yield _Found(said, read_card(target))
            elif is_web(target):
                yield _Found(said, await resolver.resolve(target))
            else:
                raise CommandError(CARD_NOT_FOUND, "A gRPC address has no card.", "Give the agent's URL.")


async def _searched(run: Invocation) -> AsyncGenerator[_Found, None]:
    args = run.args
    words = {word: getattr(args, word) for word in _WORDS}
    async with (
        await registry(run) as found,
        aclosing(found.search(capabilities=args.capability, **words)) as agents,
    ):
        async for agent in agents:
            yield _registered(agent)


def _registered(agent: RegisteredAgent) -> _Found:
    facts = {"id": agent.id, "health": agent.health, "signature": agent.signature, "detail": agent.detail}
    return _Found(f"registry:{agent.id}", agent.card, facts | ({"url": agent.url} if agent.url else {}))


def _print(printer: TextPrinter, found: _Found) -> None:
    card = found.card
    printer.field("Agent", found.reference)
    printer.field("Name", f"{card.name} {card.version}")
    printer.field("Description", card.description)
    if card.provider.organization:
        printer.field("Provider", card.provider.organization)
    for label in ("url", "health", "signature"):
        if label in found.facts:
            printer.field("URL" if label == "url" else label.capitalize(), found.facts[label])
    for interface in card.supported_interfaces:
        printer.field("Interface", f"{interface.protocol_binding} {interface.protocol_version} {interface.url}")
    for skill in card.skills:
        printer.field("Skill", f"{skill.id}: {skill.description}")
    printer.gap()


def _as_json(found: _Found) -> dict[str, Any]:
    return {"agentCard": found.reference, **found.facts, "card": protojson.to_dict(found.card)}
