"""`a2a-grpc auth`: sign in to an agent by OAuth 2.0 or OpenID Connect, and out again."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from a2a_grpc.client.cli import options
from a2a_grpc.client.cli.agent import agent_key, card_resolver, resolved, warn_if_insecure
from a2a_grpc.client.cli.failures import USAGE, CommandError
from a2a_grpc.client.cli.invocation import Invocation, Parser, run
from a2a_grpc.client.cli.output import write_json
from a2a_grpc.client.cli.settings import Settings
from a2a_grpc.client.cli.text import TextPrinter
from a2a_grpc.client.cli.tokens import CLIENT, DEVICE, FLOWS, KeptClient, KeptDevice, Store
from a2a_grpc.client.credentials import DeviceCode
from a2a_grpc.client.discovery import find
from a2a_grpc.client.errors import CredentialsError
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.client.options import Options
from a2a_grpc.client.origins import Origins
from a2a_grpc.client.printing import plain

_CONNECT_SECONDS = 10.0


def auth(argv: Sequence[str]) -> int:
    """Sign in or out. Returns the exit code."""
    return run(build, argv)


def build(settings: Settings) -> ArgumentParser:
    parser = Parser(prog="a2a-grpc auth", description="Sign in to an agent, and out again.")
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    login = actions.add_parser(
        "login",
        help="get a token for an agent, which later commands show",
        description="Get a token for an agent, which later commands show to it.",
    )
    names = ("agent-card", *options.REGISTRY, *options.OUTPUT, "timeout", "client-id", "client-secret", "scope")
    options.add(login, (*names, "client-cert", "client-key", "allow-origin", "ca-file", "insecure"), settings)
    login.add_argument("--flow", choices=FLOWS, help=f"how (default: {CLIENT} where there is a secret, else {DEVICE})")
    login.set_defaults(action=_login)
    logout = actions.add_parser("logout", help="forget the token", description="Forget the token for an agent.")
    options.add(logout, ("agent-card", *options.OUTPUT), settings)
    logout.set_defaults(action=_logout)
    return parser


async def _login(run: Invocation) -> int:
    args = run.args
    if not args.client_id:
        raise CommandError(USAGE, "A client is needed that the authorization server knows: --client-id.")
    target = await resolved(run)
    warn_if_insecure(run)
    store, secret = Store(agent_key(run), run.tokens), args.client_secret or ""
    flow = args.flow or (CLIENT if secret else DEVICE)
    credentials: KeptDevice | KeptClient
    if flow == DEVICE:
        credentials = KeptDevice(store, args.client_id, secret, args.scope, _prompt)
    else:
        credentials = KeptClient(store, args.client_id, secret, args.scope, anew=True)
    async with card_resolver(run) as resolver:
        found = await find(
            target,
            Options(parameters={}, connect_timeout=_CONNECT_SECONDS, keepalive=None, ca_file=args.ca_file),
            bindings=BINDINGS,
            credentials=[credentials],
            origins=Origins(args.allow_origin),
            fetch=resolver.resolve,
        )
    if not found.authenticator.shows_something:
        raise CredentialsError("The agent's card has no scheme for which this flow gets a token.")
    await found.authenticator.access()
    if isinstance(run.printer, TextPrinter):
        run.printer.field("Signed in", store.agent)
        run.printer.field("Kept in", str(store.file))
    else:
        write_json({"agent": store.agent, "file": str(store.file)}, run.out)
    return 0


async def _logout(run: Invocation) -> int:
    store = Store(agent_key(run))
    if not store.remove():
        run.say(f"nobody is signed in to {store.agent}")
    return 0


def _prompt(code: DeviceCode) -> None:
    """Tell a person where to sign in; on stderr, since stdout is for results."""
    where = plain(code.verification_uri)
    sys.stderr.write(f"Open {where} and enter the code {plain(code.user_code)}\n")
    if code.verification_uri_complete:
        sys.stderr.write(f"or open {plain(code.verification_uri_complete)}\n")
    sys.stderr.flush()
