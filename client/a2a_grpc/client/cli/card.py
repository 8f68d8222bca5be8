"""`a2a-grpc card get`: what an agent says about itself."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf.message import Message

from a2a_grpc.client.card import card_url, parse_card
from a2a_grpc.client.cli import options
from a2a_grpc.client.cli.agent import (
    agent_of,
    card_resolver,
    connected,
    is_web,
    reference,
    registered,
    warn_if_insecure,
)
from a2a_grpc.client.cli.failures import CARD_INVALID, CARD_NOT_FOUND, USAGE, CommandError
from a2a_grpc.client.cli.invocation import Invocation, Parser, run
from a2a_grpc.client.cli.settings import Settings
from a2a_grpc.client.cli.text import TextPrinter
from a2a_grpc.client.errors import CardSignatureError
from a2a_grpc.client.registry import RegisteredAgent
from a2a_grpc.client.verifying import CardVerifier, Signer
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import UnsupportedOperationError, excerpt


def card(argv: Sequence[str]) -> int:
    """Do something with agent cards. Returns the exit code."""
    return run(build, argv)


def build(settings: Settings) -> ArgumentParser:
    parser = Parser(prog="a2a-grpc card", description="Look at agent cards.")
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    summary = "print what an agent says about itself"
    added = actions.add_parser("get", help=summary, description="Print what an agent says about itself.")
    options.add(added, options.AGENT, settings)
    added.add_argument(
        "--validate", action="store_true", help="fail if something is missing that the protocol requires"
    )
    added.add_argument("--extended", action="store_true", help="the card that the agent shows to callers it knows")
    added.add_argument(
        "--keys",
        metavar="KEYS",
        help="verify the card's signatures with these keys: a file with a JWK Set, or its URL (default: none)",
    )
    added.add_argument("--signed", action="store_true", help="fail unless one of --keys has signed the card")
    added.set_defaults(action=_get)
    return parser


async def _get(run: Invocation) -> int:
    args = run.args
    if args.signed and not args.keys:
        raise CommandError(USAGE, "--signed needs --keys.")
    async with AsyncExitStack() as stack:
        reporter = await stack.enter_async_context(_reporter(args.keys, args.ca_file)) if args.keys else None
        if not args.extended and (agent := await registered(run)) is not None:
            found, outcome = await _registered(run, agent, reporter)
        else:
            found = await (_extended(run, reporter) if args.extended else _public(run, reporter))
            outcome = _outcome(found, reporter)
    if args.signed and not (reporter and reporter.verified):
        raise CardSignatureError(f"The signature of the card is {outcome}.")
    if args.validate and (lacking := list(_lacking(found))):
        raise CommandError(CARD_INVALID, f"The card lacks what the protocol requires: {', '.join(lacking)}.")
    run.printer.show(found)
    if isinstance(run.printer, TextPrinter):
        run.printer.field("Signature", outcome)
    elif outcome != "absent":
        run.say(f"the signature of the card is {outcome}")
    return 0


def _outcome(found: a2a_pb2.AgentCard, reporter: "_Reporter | None") -> str:
    """What is to be thought of a whole card's signatures."""
    return "absent" if not found.signatures else reporter.outcome if reporter else "unverifiable (no --keys)"


async def _registered(
    run: Invocation, agent: RegisteredAgent, reporter: "_Reporter | None"
) -> tuple[a2a_pb2.AgentCard, str]:
    warn_if_insecure(run)
    if agent.detail == "public" and agent.signature != "unsigned":
        # Signatures are over the whole card, and so none of them is in the part.
        return agent.card, "unverifiable (the registry shows only a part of the card)"
    if reporter is not None:
        await reporter.verify(agent.document)
    return agent.card, _outcome(agent.card, reporter)


async def _public(run: Invocation, reporter: "_Reporter | None") -> a2a_pb2.AgentCard:
    target = reference(agent_of(run))
    warn_if_insecure(run)
    if isinstance(target, Path):
        data = await asyncio.to_thread(target.read_bytes)
        found = parse_card(data, str(target))
        if reporter is not None:
            await reporter.verify(data)
        return found
    if not is_web(target):
        raise CommandError(
            CARD_NOT_FOUND, "A gRPC address has no card.", "Give the agent's URL, or the file of its card."
        )
    run.debug(f"GET {card_url(target)}")
    async with card_resolver(run, reporter) as resolver:
        return await resolver.resolve(target)


async def _extended(run: Invocation, reporter: "_Reporter | None") -> a2a_pb2.AgentCard:
    async with connected(run) as client:
        if client.card is not None and not client.card.capabilities.extended_agent_card:
            raise UnsupportedOperationError("The agent's card says that there is no extended card.")
        found = await client.get_extended_agent_card()
    if reporter is not None:
        await reporter.verify(found)
    return found


class _Reporter(CardVerifier):
    """Says what is to be thought of a card's signatures, and refuses none (10.1)."""

    outcome = "absent"
    verified = False

    async def verify(self, card: bytes | a2a_pb2.AgentCard) -> Signer:
        """Note how it goes. The signer is of no use without `verified`."""
        try:
            signer = await super().verify(card)
        except CardSignatureError as error:
            self.outcome = f"unverifiable ({error.message.removesuffix('.')})"
            return Signer("", "")
        self.verified = True
        self.outcome = f"verified (key {signer.kid or 'without a name'}, {signer.algorithm})"
        return signer


def _reporter(said: str, ca_file: Path | None) -> _Reporter:
    if "://" in said:
        return _Reporter(jwks_urls=(said,), ca_file=ca_file)
    try:
        return _Reporter(jwks=Path(said).read_bytes())
    except OSError as error:
        raise CommandError(USAGE, f"The keys in {excerpt(said)} cannot be read: {error.strerror}.") from error


def _lacking(message: Message, path: str = "") -> Iterator[str]:
    """The required fields that are not set, here and in what is below (specification 5.7), in JSON spelling."""
    for field in message.DESCRIPTOR.fields:
        value: Any = getattr(message, field.name)
        name = f"{path}{field.json_name}"
        required = field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        unset = (field.has_presence and not message.HasField(field.name)) or _empty(value)
        if required and unset:
            yield name
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        if field.message_type.full_name.startswith("google."):
            continue
        if field.is_repeated:
            for at, item in enumerate(value):
                yield from _lacking(item, f"{name}[{at}].")
        elif message.HasField(field.name):
            yield from _lacking(value, f"{name}.")


def _empty(value: object) -> bool:
    return not isinstance(value, bool | int | Message) and not value
