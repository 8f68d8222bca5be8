"""Which schemes open: and, or, scopes, skills; and what the card says of it."""

import re
from collections.abc import Sequence
from hashlib import sha256

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.auth import requirements
from a2a_grpc.server.auth.api_key import ApiKeys
from a2a_grpc.server.auth.credentials import Credentials, PeerCertificate
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.auth.mutual_tls import MutualTls
from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.server.auth.refusals import NotAdmittedError, ScopeMissingError
from a2a_grpc.wire.errors import UnauthenticatedError, UnavailableError


class Known:
    """A scheme whose credentials are a header of its own: NAME or NAME:SCOPE,SCOPE; "bad" and "away" as they say."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.means = f"a header {name}"
        self.challenge = name.capitalize()
        self.card = pb.SecurityScheme(api_key_security_scheme=pb.APIKeySecurityScheme(location="header", name=name))

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        sent = credentials.parameters.get(self.name)
        if sent is None:
            return None
        if sent == "bad":
            raise UnauthenticatedError(f"Bad {self.name}.")
        if sent == "away":
            raise UnavailableError(f"Nobody knows {self.name}.")
        who, _, scopes = sent.partition(":")
        return Principal(who, scopes=frozenset(scopes.split(",")) - {""}, schemes=frozenset({self.name}))


SCHEMES = [Known("one"), Known("two"), Known("three")]


def gate(text: str = "", schemes: Sequence[Known] = SCHEMES) -> Gate:
    return Gate(schemes, requirements.parse(text) if text else None)


async def admitted(text: str, **sent: str) -> Principal:
    return await gate(text).admit(Credentials(parameters=sent))


async def test_a_gate_for_strangers_lets_in_who_sends_nothing_and_nobody_with_bad_credentials() -> None:
    strangers_too = Gate(SCHEMES, requirements.parse("one(read)"), anonymous=True)

    assert await strangers_too.admit(Credentials()) == ANONYMOUS
    assert (await strangers_too.admit(Credentials(parameters={"one": "alice:read"}))).name == "alice"
    for sent, error in (
        ({"one": "bad"}, NotAdmittedError),
        ({"two": "bob"}, NotAdmittedError),
        ({"one": "alice"}, ScopeMissingError),
        ({"one": "away"}, UnavailableError),
    ):
        with pytest.raises(error):
            await strangers_too.admit(Credentials(parameters=sent))
    with pytest.raises(NotAdmittedError):
        await Gate(SCHEMES, requirements.parse("one(read)")).admit(Credentials())


ADMITTED = [
    ("", {"one": "alice"}, "alice"),
    ("", {"two": "alice"}, "alice"),
    ("", {"one": "alice", "two": "bob"}, "alice"),
    ("", {"one": "bad", "two": "bob"}, "bob"),
    ("", {"one": "away", "two": "bob"}, "bob"),
    ("one+two", {"one": "alice", "two": "bob"}, "alice"),
    ("two+one", {"one": "alice", "two": "bob"}, "alice"),
    ("three, one+two", {"one": "alice", "two": "bob"}, "alice"),
    ("three, one+two", {"three": "carol"}, "carol"),
    ("three, one+two", {"three": "carol", "one": "alice"}, "carol"),
    ("one(read)", {"one": "alice:read,write"}, "alice"),
    ("one(read write), two", {"one": "alice:read", "two": "bob"}, "bob"),
    ("one(read)+two(write)", {"one": "alice:read", "two": "bob:write"}, "alice"),
]


@pytest.mark.parametrize(("text", "sent", "who"), ADMITTED)
async def test_one_alternative_is_enough_and_all_of_it_is_needed(text: str, sent: dict[str, str], who: str) -> None:
    found = await admitted(text, **sent)
    assert (found.name, found.authenticated) == (who, True)


REFUSED = [
    ("", {}),
    ("", {"one": "bad"}),
    ("one+two", {"one": "alice"}),
    ("one+two", {"one": "alice", "two": "bad"}),
    ("one+two", {"three": "carol"}),
    ("three, one+two", {"two": "bob"}),
    ("one(read)", {"two": "bob:read"}),
]


@pytest.mark.parametrize(("text", "sent"), REFUSED)
async def test_less_than_an_alternative_is_refused(text: str, sent: dict[str, str]) -> None:
    with pytest.raises(NotAdmittedError) as caught:
        await admitted(text, **sent)
    assert caught.value.metadata["schemes"] == (text or "one, two, three")
    assert caught.value.challenge
    assert set(caught.value.challenge.lower().split(", ")) <= {"one", "two", "three"}


async def test_a_refusal_says_what_to_send() -> None:
    with pytest.raises(NotAdmittedError, match="Send a header three, or a header one and a header two"):
        await admitted("three, one+two")


@pytest.mark.parametrize("sent", [{"one": "alice:write"}, {"one": "alice"}, {"one": "alice:write", "two": "bob:more"}])
async def test_a_missing_scope_is_named(sent: dict[str, str]) -> None:
    with pytest.raises(ScopeMissingError) as caught:
        await admitted("one(read write)", **sent)
    assert "read" in caught.value.metadata["missing_scope"].split()
    assert caught.value.challenge == 'Bearer error="insufficient_scope", scope="read write"'


@pytest.mark.parametrize("scope", ["\u00e4dmin", 'a", realm="b', "a\nb"])
def test_a_scope_of_an_author_writes_no_header(scope: str) -> None:
    """Over gRPC a value that is not ASCII would end the call as INTERNAL."""
    challenge = ScopeMissingError(frozenset({scope}), frozenset()).challenge
    assert re.fullmatch(r'Bearer error="insufficient_scope", scope="[\x20\x21\x23-\x5b\x5d-\x7e]+"', challenge)


async def test_what_cannot_be_checked_is_no_refusal() -> None:
    for sent in ({"one": "away"}, {"one": "away", "two": "bad"}):
        with pytest.raises(UnavailableError):
            await admitted("", **sent)


async def test_without_schemes_everybody_is_anonymous() -> None:
    opened = Gate()
    assert opened.open and await opened.admit(Credentials(parameters={"one": "alice"})) == ANONYMOUS
    card = pb.AgentCard()
    opened.declare(card)
    assert card == pb.AgentCard()


def skill(*alternatives: dict[str, list[str]]) -> list[pb.SecurityRequirement]:
    return [
        pb.SecurityRequirement(schemes={name: pb.StringList(list=scopes) for name, scopes in one.items()})
        for one in alternatives
    ]


async def test_skills_may_want_more() -> None:
    door = gate("one, two")
    alice = await door.admit(Credentials(parameters={"one": "alice:read", "three": "x"}))
    for entries in ([], skill({"one": []}), skill({"one": ["read"]}), skill({"two": []}, {"one": [], "three": []})):
        door.check(alice, entries)
    with pytest.raises(ScopeMissingError, match="write"):
        door.check(alice, skill({"one": ["write"]}))
    with pytest.raises(NotAdmittedError) as caught:
        door.check(alice, skill({"two": []}))
    assert caught.value.challenge == "Two"


def test_the_card_declares_what_is_checked_and_nothing_else() -> None:
    card = pb.AgentCard(skills=[pb.AgentSkill(id="s", security_requirements=skill({"three": ["more"]}))])
    gate("one(read)").declare(card)
    assert set(card.security_schemes) == {"one", "three"}
    assert card.security_schemes["one"] == SCHEMES[0].card
    assert requirements.show(requirements.read(card.security_requirements)) == "one(read)"


def test_a_card_that_says_something_else_is_refused() -> None:
    """The card must never say what the server does not do."""
    wrong = pb.AgentCard(security_schemes={"basic": pb.SecurityScheme()})
    other = pb.AgentCard(security_schemes={"one": SCHEMES[1].card})
    odd = pb.AgentCard(skills=[pb.AgentSkill(id="s", security_requirements=skill({"basic": []}))])
    nobody = pb.AgentCard(skills=[pb.AgentSkill(id="s", security_requirements=skill({}))])
    for card in (wrong, other, odd, nobody):
        for door in (gate(), Gate()):
            with pytest.raises(ValueError, match="security"):
                door.declare(card)
    same = pb.AgentCard(security_schemes={"one": SCHEMES[0].card})
    gate().declare(same)
    assert set(same.security_schemes) == {"one", "two", "three"}


def test_requirements_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="the agent requires the security scheme four; configured: one, two, three"):
        gate("one, four")
    for text in ("one,,two", "one+", "one(read", "(read)", "one two", 'one("x")'):
        with pytest.raises(ValueError, match="names of schemes"):
            requirements.parse(text)
    with pytest.raises(ValueError, match="would let anybody in"):
        Gate(SCHEMES, ())


async def test_the_certificate_says_who_calls() -> None:
    certificate = PeerCertificate(
        subject="CN=agent,O=Example", names=("DNS:agent.example.com", "URI:spiffe://example.com/agent")
    )
    shown = Credentials(certificate=certificate)
    by_subject, by_name = MutualTls("subject"), MutualTls("san")
    one, other = await by_subject.authenticate(shown), await by_name.authenticate(shown)
    assert one is not None and one.name == "cert:CN=agent,O=Example"
    assert other is not None and other.name == "cert:URI:spiffe://example.com/agent"
    assert await by_name.authenticate(Credentials()) is None
    with pytest.raises(UnauthenticatedError, match="no subject alternative name"):
        await by_name.authenticate(Credentials(certificate=PeerCertificate(subject="CN=x")))
    with pytest.raises(UnauthenticatedError, match="no subject"):
        await by_subject.authenticate(Credentials(certificate=PeerCertificate(subject="", names=("DNS:x",))))


ALLOWED = (
    "DNS:agent.example.com", "DNS:*.mesh.example", "URI:spiffe://example.com/ns/a/*", "URI:spiffe://example.com/b",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "let_in"),
    [
        ("DNS:agent.example.com", True),
        ("DNS:AGENT.example.com", True),
        ("DNS:other.example.com", False),
        ("DNS:agent.example.com.evil.example", False),
        ("DNS:a.mesh.example", True),
        ("DNS:a.b.Mesh.example", True),
        ("DNS:mesh.example", False),
        ("DNS:.mesh.example", False),
        ("DNS:evilmesh.example", False),
        ("URI:spiffe://example.com/ns/a/agent", True),
        ("URI:spiffe://example.com/ns/a/b/agent", True),
        ("URI:spiffe://example.com/ns/a/", False),
        ("URI:spiffe://example.com/ns/a", False),
        ("URI:spiffe://example.com/ns/ab", False),
        ("URI:spiffe://example.com/ns/a/../b", False),
        ("URI:spiffe://example.com/ns/a/%2e%2E%2Fb", False),
        ("URI:spiffe://example.com/b", True),
        ("URI:spiffe://EXAMPLE.com/b", False),
        ("URI:spiffe://example.com/b/c", False),
        ("URI:https://example.com/ns/a/agent", False),
        ("email:agent@example.com", False),
    ],
)
async def test_a_list_says_whose_certificates_open(name: str, let_in: bool) -> None:
    scheme, shown = MutualTls("san", ALLOWED), Credentials(certificate=PeerCertificate(subject="", names=(name,)))
    if let_in:
        found = await scheme.authenticate(shown)
        assert found is not None and found.name == f"cert:{name}"
    else:
        with pytest.raises(UnauthenticatedError) as caught:
            await scheme.authenticate(shown)
        assert caught.value.message == f"The certificate of {name} is none of those that are let in."


async def test_subjects_on_the_list_are_exact() -> None:
    scheme = MutualTls("subject", ["CN=agent,O=Example\\, Inc."])
    for subject, let_in in (
        ("CN=agent,O=Example\\, Inc.", True),
        ("CN=agent", False),
        ("CN=agent,O=Example", False),
        ("CN=AGENT,O=Example\\, Inc.", False),
    ):
        shown = Credentials(certificate=PeerCertificate(subject=subject, names=("DNS:agent.example.com",)))
        if let_in:
            assert await scheme.authenticate(shown)
        else:
            with pytest.raises(UnauthenticatedError):
                await scheme.authenticate(shown)


@pytest.mark.parametrize("name", ["CN=a\nb", "CN=\u202eecila", "CN=" + "a" * 300])
async def test_a_certificate_whose_name_nobody_can_read_opens_nothing(name: str) -> None:
    for certificate in (PeerCertificate(subject=name), PeerCertificate(subject="", names=(f"URI:{name}",))):
        scheme = MutualTls("subject" if certificate.subject else "san")
        with pytest.raises(UnauthenticatedError, match="printable characters"):
            await scheme.authenticate(Credentials(certificate=certificate))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("alice:", "bob:b"), "the key of alice is empty"),  # printf %s "$UNSET"
        (("alice:a", "bob:\n"), "the key of bob is empty"),  # echo "$UNSET"
        (("alice:a", "bob:b", "carol:a"), "alice and carol have the same API key"),
    ],
)
def test_keys_that_tell_nobody_apart_are_refused(keys: tuple[str, ...], said: str) -> None:
    entries = (entry.split(":") for entry in keys)
    digests = [(name, sha256(key.encode()).hexdigest()) for name, key in entries]
    with pytest.raises(ValueError, match=said):
        ApiKeys(digests, "header", "k")


async def test_keys_are_looked_for_in_their_place_only() -> None:
    digest = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"  # of "key"
    for location, field in (("header", "parameters"), ("query", "query"), ("cookie", "cookies")):
        keys = ApiKeys([("alice", digest)], location, "k")  # type: ignore[arg-type]
        for place in ("parameters", "query", "cookies"):
            found = await keys.authenticate(Credentials(**{place: {"k": "key"}}))  # type: ignore[arg-type]
            assert (found is not None) == (place == field)
        with pytest.raises(UnauthenticatedError, match="not known"):
            await keys.authenticate(Credentials(**{field: {"k": "Key"}}))  # type: ignore[arg-type]
