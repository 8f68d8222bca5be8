"""From environment variables to the settings, and what people are told when something is wrong."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from a2a_grpc.server.settings import Settings, SettingsError, load
from a2a_grpc.server.settings.source import all_settings
from a2a_grpc.server.settings.table import effective
from a2a_grpc.server.settings.values import Address

DIGEST = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"  # of "secret"
SECRET_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def problem(**environ: str) -> str:
    """The only problem with these variables."""
    with pytest.raises(SettingsError) as refusal:
        load(environ)
    (sentence,) = refusal.value.problems
    return sentence


def row(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """What `a2a-grpc config` says about one variable."""
    return next((found.value, found.source) for found in effective(load(environ)) if found.name == name)


def test_defaults_are_those_of_the_documentation() -> None:
    settings = load({})

    assert (str(settings.grpc.addr), str(settings.http.addr)) == ("0.0.0.0:50051", "0.0.0.0:8080")
    assert settings.grpc.reflection is True
    assert (settings.grpc.keepalive_time, settings.grpc.keepalive_timeout, settings.grpc.min_ping_interval) == (
        30,
        10,
        10,
    )
    assert settings.grpc.max_streams == 0
    assert (settings.http.sse_heartbeat, settings.http.cors_origins.values) == (15, ("*",))
    assert settings.card.max_age == 300
    assert settings.store.redis_url is None
    assert (settings.store.shards, settings.store.task_ttl, settings.store.dedupe_ttl) == (1, 604800, 86400)
    assert (settings.store.timeout, settings.store.patience) == (1.5, 45)
    assert (settings.store.snapshot_events, settings.store.stream_buffer) == (256, 256)
    assert (settings.engine.max_turns, settings.engine.max_ready) == (100, 10000)
    assert settings.engine.turn_timeout == 86400
    assert (settings.engine.cancel_grace, settings.engine.mixed_timeout) == (5, 1)
    assert (settings.engine.lease_ttl, settings.engine.max_attempts) == (4, 3)
    assert (settings.store.log_events, settings.store.dead_letter_ttl) == (10_000, 2_592_000)
    assert (settings.grpc.max_connection_age, settings.grpc.max_connection_age_grace) == (0, 600)
    assert (settings.drain.delay, settings.drain.grace, settings.drain.timeout) == (0, 15, 28)
    assert settings.admin.addr is None
    assert (str(settings.metrics.addr), settings.metrics.asked_for) == ("0.0.0.0:9464", False)
    assert settings.otlp.endpoint is None
    assert (settings.otlp.by_parent, settings.otlp.ratio, settings.otlp.metric_interval) == (True, 0.05, 60_000)
    assert settings.otlp.attributes == {"service.name": "a2a-grpc"}
    assert (settings.limits.max_message_bytes, settings.limits.max_nesting, settings.limits.max_id_length) == (
        4194304,
        32,
        256,
    )
    assert settings.quotas.limits(1024).unlimited
    assert settings.quotas.failed_authentication is None
    assert settings.protocol.assume_version is None
    assert (settings.auth.api_keys.digests, settings.auth.api_key_header) == ((), "x-api-key")
    assert (settings.keys.signing.paths, settings.keys.encryption.keys) == ((), ())
    push = settings.push
    assert (push.enabled, str(push.allow), push.http, push.timeout) == (True, "", False, 15)
    assert (push.attempts, push.give_up, push.backoff, push.backoff_max) == (15, 86400, 1, 300)
    assert (push.concurrency, push.per_host, push.max_configs) == (100, 10, 100)
    assert (settings.card.access, settings.card.jku) == ("public", None)
    assert settings.card_jku == "http://localhost:8080/.well-known/jwks.json"
    assert not (settings.tls.on or settings.tls.asks or settings.tls.terminated)
    assert (settings.process.log_level, settings.process.log_format) == ("info", "text")


GIVEN = {
    "A2A_GRPC_ADDR": "127.0.0.1:6001",
    "A2A_GRPC_KEEPALIVE_TIME": "31",
    "A2A_GRPC_KEEPALIVE_TIMEOUT": "11",
    "A2A_GRPC_MIN_PING_INTERVAL": "9.5",
    "A2A_GRPC_MAX_STREAMS": "1000",
    "A2A_GRPC_MAX_CONNECTION_AGE": "1800",
    "A2A_GRPC_MAX_CONNECTION_AGE_GRACE": "300",
    "A2A_GRPC_REFLECTION": "false",
    "A2A_HTTP_ADDR": "[::1]:6002",
    "A2A_SSE_HEARTBEAT": "5",
    "A2A_CORS_ORIGINS": "https://a.example.com,http://localhost:3000",
    "A2A_PUBLIC_GRPC_ADDR": "agent.example.com:443",
    "A2A_PUBLIC_HTTP_URL": "https://agent.example.com/one",
    "A2A_CARD_MAX_AGE": "60",
    "A2A_CARD_ACCESS": "authenticated",
    "A2A_CARD_JKU": "https://keys.example.com/agent.json",
    "A2A_REDIS_URL": "rediss://store.example.com:6380/2",
    "A2A_DATA_DIR": "/srv/a2a",
    "A2A_SHARDS": "16",
    "A2A_TASK_TTL": "3600",
    "A2A_DEDUPE_TTL": "0",
    "A2A_STORE_TIMEOUT": "0.5",
    "A2A_STORE_PATIENCE": "7",
    "A2A_STORE_REPLICAS": "2",
    "A2A_SNAPSHOT_EVENTS": "64",
    "A2A_LOG_EVENTS": "500",
    "A2A_DEAD_LETTER_TTL": "7200",
    "A2A_STREAM_BUFFER": "32",
    "A2A_LEASE_TTL": "6",
    "A2A_MAX_ATTEMPTS": "1",
    "A2A_MAX_TURNS": "7",
    "A2A_MAX_READY": "8",
    "A2A_TURN_TIMEOUT": "0",
    "A2A_CANCEL_GRACE": "2",
    "A2A_MIXED_TIMEOUT": "0.25",
    "A2A_DRAIN_DELAY": "5",
    "A2A_DRAIN_GRACE": "10",
    "A2A_DRAIN_TIMEOUT": "20",
    "A2A_ADMIN_ADDR": "127.0.0.1:6003",
    "A2A_METRICS_ADDR": "127.0.0.1:6004",
    "OTEL_SDK_DISABLED": "true",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example.com:4317",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%2Cb",
    "OTEL_SERVICE_NAME": "searcher",
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=staging,team=a%2Cb",
    "OTEL_TRACES_SAMPLER": "traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0.5",
    "OTEL_METRIC_EXPORT_INTERVAL": "10000",
    "A2A_MAX_MESSAGE_BYTES": "1048576",
    "A2A_MAX_NESTING": "16",
    "A2A_MAX_ID_LENGTH": "128",
    "A2A_LIMIT_CALLER_RATES": "send=5:20,read=50:50",
    "A2A_LIMIT_CALLER_CALLS": "10",
    "A2A_LIMIT_CALLER_STREAMS": "20",
    "A2A_LIMIT_CALLER_TASKS": "30",
    "A2A_LIMIT_TENANT_RATES": "change=0.5:1",
    "A2A_LIMIT_TENANT_CALLS": "100",
    "A2A_LIMIT_TENANT_STREAMS": "200",
    "A2A_LIMIT_FAILED_AUTHENTICATION": "0.1:20",
    "A2A_ASSUME_VERSION": "1.0",
    "A2A_API_KEYS": f"alice:{DIGEST}",
    "A2A_API_KEY_HEADER": "x-key",
    "A2A_API_KEY_IN": "query",
    "A2A_API_KEY_NAME": "api_key",
    "A2A_JWT_ISSUER": "https://issuer.example.com/one",
    "A2A_JWT_AUDIENCE": "agents,others",
    "A2A_JWT_JWKS_URL": "https://issuer.example.com/keys?of=one",
    "A2A_JWT_ALGORITHMS": "ES256",
    "A2A_JWT_SCOPES": "tasks,more",
    "A2A_JWT_LEEWAY": "5",
    "A2A_JWKS_PLAINTEXT": "true",
    "A2A_OIDC_ISSUER": "https://issuer.example.com/two/",
    "A2A_OAUTH2_FLOWS": "client_credentials,device_code",
    "A2A_OAUTH2_TOKEN_URL": "https://issuer.example.com/token",
    "A2A_OAUTH2_AUTHORIZATION_URL": "https://issuer.example.com/login",
    "A2A_OAUTH2_DEVICE_URL": "https://issuer.example.com/device",
    "A2A_OAUTH2_REFRESH_URL": "https://issuer.example.com/refresh",
    "A2A_OAUTH2_METADATA_URL": "https://issuer.example.com/metadata",
    "A2A_OAUTH2_SCOPES": "tasks=make tasks,more=and more",
    "A2A_MTLS": "san",
    "A2A_MTLS_ALLOW": "DNS:*.example.com;URI:spiffe://example.com/*",
    "A2A_SECURITY": "apiKey, bearer(tasks)+mtls",
    "A2A_OWNER": "tenant",
    "A2A_SIGNING_KEYS": "/run/keys/new.pem,/run/keys/old.pem",
    "A2A_ENCRYPTION_KEYS": SECRET_KEY,
    "A2A_PUSH": "false",
    "A2A_PUSH_ALLOW": "*.svc.cluster.local,10.1.0.0/16",
    "A2A_PUSH_ALLOW_HTTP": "true",
    "A2A_PUSH_TIMEOUT": "10",
    "A2A_PUSH_ATTEMPTS": "3",
    "A2A_PUSH_GIVE_UP": "600",
    "A2A_PUSH_BACKOFF": "0.5",
    "A2A_PUSH_BACKOFF_MAX": "30",
    "A2A_PUSH_CONCURRENCY": "20",
    "A2A_PUSH_PER_HOST": "4",
    "A2A_PUSH_MAX_CONFIGS": "5",
    "A2A_TLS_CERT_FILE": "/etc/tls/tls.crt",
    "A2A_TLS_KEY_FILE": "/etc/tls/tls.key",
    "A2A_TLS_CLIENT_CA_FILE": "/etc/tls/ca.crt",
    "A2A_TLS_CLIENT_CERT": "optional",
    "A2A_TLS_GRPC_CLIENT_CERT": "required",
    "A2A_TLS_TERMINATED": "true",
    "A2A_REGISTRY_LEASE_TTL": "30",
    "A2A_REGISTRY_MAX_PER_OWNER": "5",
    "A2A_REGISTRY_MAX_AGENTS": "50",
    "A2A_REGISTRY_MAX_CARD_BYTES": "2048",
    "A2A_REGISTRY_CHECK_INTERVAL": "0",
    "A2A_REGISTRY_CHECK_TIMEOUT": "2",
    "A2A_REGISTRY_CHECK_CONCURRENCY": "3",
    "A2A_REGISTRY_ALLOW": "*.agents.internal,10.2.0.0/16",
    "A2A_REGISTRY_ALLOW_HTTP": "true",
    "A2A_REGISTRY_TRUSTED_KEYS": "/run/keys/one.json,/run/keys/two.json",
    "A2A_REGISTER_URL": "grpcs://registry.example.com:443",
    "A2A_REGISTER_HEADER": "x-api-key: secret",
    "A2A_REGISTER_PUBLIC": "true",
    "A2A_REGISTER_CA_FILE": "/etc/tls/registry.crt",
    "A2A_REPLICA": "pod-7",
    "A2A_LOG_LEVEL": "warning",
    "A2A_LOG_FORMAT": "json",
}


def test_every_variable_reaches_its_own_field() -> None:
    # The keys of an issuer come from a URL or from a file.
    assert set(GIVEN) | {"A2A_JWT_JWKS_FILE"} == {setting.variable.name for setting in all_settings(Settings)}

    rows = effective(load(GIVEN))

    assert {found.name: found.value for found in rows} == GIVEN | {
        "A2A_API_KEYS": "alice:***",
        "A2A_ENCRYPTION_KEYS": "***",
        "A2A_REGISTER_HEADER": "x-api-key: ***",
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=***",
        "A2A_JWT_JWKS_FILE": "(none)",
    }
    assert {found.name for found in rows if found.source == "default"} == {"A2A_JWT_JWKS_FILE"}


def test_values_have_their_types() -> None:
    settings = load(GIVEN)

    assert settings.http.addr == Address("::1", 6002)
    assert settings.store.data_dir == Path("/srv/a2a")
    assert settings.auth.api_keys.digests == (("alice", DIGEST),)
    assert settings.http.cors_origins.values == ("https://a.example.com", "http://localhost:3000")
    assert settings.store.redis_url is not None
    assert settings.store.redis_url.value == "rediss://store.example.com:6380/2"
    assert settings.otlp.headers.pairs == (("api-key", "a,b"),)
    assert settings.otlp.attributes == {
        "deployment.environment.name": "staging",
        "team": "a,b",
        "service.name": "searcher",
    }


@pytest.mark.parametrize("url", ["https://collector", "http://[2001:db8::1]:4317", "https://collector:4317/otlp"])
def test_a_collector_is_where_it_was_said(url: str) -> None:
    assert load({"OTEL_EXPORTER_OTLP_ENDPOINT": url}).otlp.endpoint == url


def test_nothing_can_be_changed_afterwards() -> None:
    settings = load({})

    with pytest.raises(ValidationError):
        settings.store.shards = 2
    with pytest.raises(ValidationError):
        settings.store = load({}).store


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("A2A_SHARDS", "0", "A2A_SHARDS is '0', but it must be a whole number, at least 1 and at most 4096."),
        ("A2A_SHARDS", "4097", "A2A_SHARDS is '4097', but it must be a whole number, at least 1 and at most 4096."),
        ("A2A_SHARDS", "many", "A2A_SHARDS is 'many', but it must be a whole number, at least 1 and at most 4096."),
        ("A2A_MAX_TURNS", "1.5", "A2A_MAX_TURNS is '1.5', but it must be a whole number, at least 1."),
        (
            "A2A_TASK_TTL",
            "0",
            "A2A_TASK_TTL is '0', but it must be a number of seconds above 0 and at most 315360000.",
        ),
        (
            "A2A_TASK_TTL",
            "7d",
            "A2A_TASK_TTL is '7d', but it must be a number of seconds above 0 and at most 315360000.",
        ),
        (
            "A2A_DEDUPE_TTL",
            "nan",
            "A2A_DEDUPE_TTL is 'nan', but it must be a number of seconds, at least 0 and at most 315360000.",
        ),
        (
            "A2A_DEDUPE_TTL",
            "inf",
            "A2A_DEDUPE_TTL is 'inf', but it must be a number of seconds, at least 0 and at most 315360000.",
        ),
        (
            "A2A_GRPC_KEEPALIVE_TIME",
            "86401",
            "A2A_GRPC_KEEPALIVE_TIME is '86401', but it must be a number of seconds above 0 and at most 86400.",
        ),
        (
            "A2A_MAX_MESSAGE_BYTES",
            "4MB",
            (
                "A2A_MAX_MESSAGE_BYTES is '4MB', but it must be a whole number of bytes, "
                "at least 1024 and at most 2147483647."
            ),
        ),
        ("A2A_GRPC_REFLECTION", "maybe", "A2A_GRPC_REFLECTION is 'maybe', but it must be true or false."),
        (
            "A2A_LOG_LEVEL",
            "loud",
            "A2A_LOG_LEVEL is 'loud', but it must be one of debug, info, warning, error.",
        ),
        ("A2A_ASSUME_VERSION", "0.3", "A2A_ASSUME_VERSION is '0.3', but it must be 1.0, or unset."),
        (
            "A2A_GRPC_ADDR",
            "50051",
            "A2A_GRPC_ADDR is '50051', but it must be HOST:PORT, for example 127.0.0.1:50051 or [::1]:50051.",
        ),
        (
            "A2A_ADMIN_ADDR",
            "0.0.0.0:50055",
            (
                "A2A_ADMIN_ADDR is '0.0.0.0:50055', but whoever connects there may read, send again and erase the "
                "tasks of everybody, without credentials, so it must be an address of this machine alone, such as "
                "127.0.0.1:50055. To reach it from elsewhere: kubectl exec, kubectl port-forward, or ssh -L "
                "50055:127.0.0.1:50055."
            ),
        ),
        ("A2A_HTTP_ADDR", "h:65536", "A2A_HTTP_ADDR is 'h:65536', but the port 65536 is higher than 65535."),
        (
            "A2A_PUBLIC_HTTP_URL",
            "agent.example.com",
            (
                "A2A_PUBLIC_HTTP_URL is 'agent.example.com', but it must be a URL like https://agent.example.com "
                "or https://example.com/agents/one."
            ),
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://collector",
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT is 'http://collector', but it must name the port, mostly :4317; without "
                "one gRPC takes 443, for plain text too."
            ),
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "collector:4317",
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT is 'collector:4317', but it must be a URL like https://agent.example.com "
                "or https://example.com/agents/one."
            ),
        ),
        (
            "A2A_CORS_ORIGINS",
            "https://a.example.com,b",
            (
                "A2A_CORS_ORIGINS is 'https://a.example.com,b', but 'b' is no origin; "
                "write for example https://app.example.com, or * for all, or none."
            ),
        ),
        (
            "A2A_API_KEY_HEADER",
            "key-bin",
            "A2A_API_KEY_HEADER is 'key-bin', but gRPC keeps names that begin with grpc- or end with -bin for itself.",
        ),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/protobuf",
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/protobuf', but it must be grpc.",
        ),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "secret",
            (
                "OTEL_EXPORTER_OTLP_HEADERS is ***, but entry 1 must be NAME=VALUE, with %2C for a comma: "
                "for example api-key=…."
            ),
        ),
        (
            "OTEL_TRACES_SAMPLER_ARG",
            "5",
            "OTEL_TRACES_SAMPLER_ARG is '5', but it must be a number, at least 0 and at most 1.",
        ),
        (
            "A2A_REPLICA",
            "pod 7",
            "A2A_REPLICA is 'pod 7', but it must have up to 128 letters, digits and the characters . _ -.",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_what_it_is_and_what_it_must_be(name: str, text: str, sentence: str) -> None:
    assert problem(**{name: text}) == sentence


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as refusal:
        load({"A2A_SHARDS": "0", "A2A_LOG_FORMAT": "xml", "A2A_GRPC_ADDR": "here"})

    assert [sentence.split()[0] for sentence in refusal.value.problems] == [
        "A2A_GRPC_ADDR",
        "A2A_SHARDS",
        "A2A_LOG_FORMAT",
    ]
    assert str(refusal.value) == "\n".join(refusal.value.problems)


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("redis+sentinel://user:pa55@s1:26379", "after the last sentinel must follow the name that they give the mas"),
        ("redis+sentinel://user:pa55@s1:26379/main/x", "and then a number of a database may, for example redis+sent"),
        ("redis+sentinel://user:pa55@s1:26379,/main", "address 2 in it cannot be read; write HOST:PORT,HOST:PORT as"),
        ("redis+sentinel://user:pa55@/main", "address 1 in it cannot be read"),
        ("redis+sentinel://user:pa/55@s1:26379/main", "in a password the characters / ? # @ : must be written as"),
        ("redis+cluster://user:pa55@c1:6379,c2:66666", "address 2 in it cannot be read"),
        ("redis+cluster://user:pa55@c1:6379/1", "a cluster has no database numbers"),
        ("redis+cluster://user:pa55@c1:6379?db=1", "a cluster has no database numbers"),
        ("unix+cluster://user:pa55@c1:6379", "it must begin with redis://, rediss://, unix://, redis+sentinel://"),
        (
            "http://user:pa55@h",
            "it must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://",
        ),
        ("redis://user:pa55@", "it names no host; write for example redis://localhost:6379/0"),
        ("redis://user:pa55@h:port", "it is not a URL"),
        ("redis://user:pa55/x@h", "in a password the characters / ? # @ : must be written as"),
        ("redis://h/pa55", "only the number of a database may follow"),
        ("unix://", "unix:// needs the path of the socket"),
    ],
)
def test_a_wrong_store_url_is_refused_without_repeating_it(url: str, part: str) -> None:
    sentence = problem(A2A_REDIS_URL=url)

    assert sentence.startswith("A2A_REDIS_URL is ***, but ")
    assert part in sentence
    assert "pa55" not in sentence


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ("hunter2", "entry 1 must be NAME:SHA256HEX"),
        (f"alice:{DIGEST},hunter2", "entry 2 must be NAME:SHA256HEX"),
        ("bob:hunter2", "the key of bob (entry 1) must be given as its SHA-256 in 64 hexadecimal digits"),
    ],
)
def test_wrong_api_keys_are_refused_without_repeating_them(keys: str, part: str) -> None:
    sentence = problem(A2A_API_KEYS=keys)

    assert part in sentence
    assert "hunter2" not in sentence
    assert DIGEST not in sentence


def test_a_password_in_the_wrong_place_is_not_repeated() -> None:
    sentence = problem(A2A_PUBLIC_HTTP_URL="https://user:pa55@agent.example.com")

    assert sentence == "A2A_PUBLIC_HTTP_URL is ***, but it must have no user, no query and no fragment."


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("redis://user:pa55@h:1/0", "redis://user:***@h:1/0"),
        ("redis://:pa55@h", "redis://:***@h"),
        ("redis://user:p%4055@h", "redis://user:***@h"),
        ("rediss://h/0?username=u&password=pa55&protocol=3", "rediss://h/0?username=u&password=***&protocol=3"),
        ("rediss://h/0?ssl_password=pa55", "rediss://h/0?ssl_password=***"),
        ("unix://user:pa55@/run/r.sock", "unix://user:***@/run/r.sock"),
        ("redis://h:6379", "redis://h:6379"),
        ("redis+sentinel://u:pa55@a:1,b:2/main/3", "redis+sentinel://u:***@a:1,b:2/main/3"),
        ("rediss+sentinel://a/m?sentinel_password=pa55", "rediss+sentinel://a/m?sentinel_password=***"),
        ("redis+cluster://:pa55@[::1]:1,b", "redis+cluster://:***@[::1]:1,b"),
    ],
)
def test_the_password_of_the_store_is_in_no_dump(url: str, printed: str) -> None:
    settings = load({"A2A_REDIS_URL": url})

    assert row("A2A_REDIS_URL", {"A2A_REDIS_URL": url}) == (printed, "environment")
    for dump in (str(settings), repr(settings), repr(effective(settings))):
        assert "pa55" not in dump
        assert "p%4055" not in dump


def test_api_keys_are_in_no_dump() -> None:
    settings = load({"A2A_API_KEYS": f"alice:{DIGEST},bob:{DIGEST[::-1].upper()}"})

    assert settings.auth.api_keys.digests == (("alice", DIGEST), ("bob", DIGEST[::-1]))
    for dump in (str(settings), repr(settings), repr(effective(settings))):
        assert DIGEST not in dump.lower() and DIGEST[::-1] not in dump.lower()


def test_effective_values_tell_defaults_from_what_was_given() -> None:
    assert row("A2A_SHARDS", {}) == ("1", "default")
    assert row("A2A_SHARDS", {"A2A_SHARDS": "1"}) == ("1", "environment")
    assert row("A2A_TASK_TTL", {}) == ("604800", "default")
    assert row("A2A_REDIS_URL", {}) == ("(the embedded store)", "default")
    assert row("A2A_PUBLIC_GRPC_ADDR", {"A2A_GRPC_ADDR": "0.0.0.0:7"}) == ("localhost:7", "default")


def test_an_empty_variable_counts_as_unset() -> None:
    assert row("A2A_SHARDS", {"A2A_SHARDS": " "}) == ("1", "default")
    assert load({"A2A_API_KEYS": ""}).auth.api_keys.digests == ()


def test_the_environment_of_the_process_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_SHARDS", "5")

    assert load().store.shards == 5
    assert load({}).store.shards == 1


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("A2A_SHARD", "A2A_SHARD is not a setting and is ignored. Did you mean A2A_SHARDS?"),
        ("A2A_REDISURL", "A2A_REDISURL is not a setting and is ignored. Did you mean A2A_REDIS_URL?"),
        ("A2A_XYZZY", "A2A_XYZZY is not a setting and is ignored."),
    ],
)
def test_an_unknown_variable_is_told_with_the_nearest_name(name: str, warning: str) -> None:
    assert load({name: "secret"}).warnings[0] == warning


@pytest.mark.parametrize(
    "name",
    [
        "A2A_GRPC_PORT",
        "A2A_GRPC_SERVICE_HOST",
        "A2A_GRPC_SERVICE_PORT_GRPC",
        "A2A_GRPC_PORT_50051_TCP_ADDR",
        "A2A_PORT",
    ],
)
def test_what_kubernetes_says_about_services_is_no_mistyped_setting(name: str) -> None:
    assert load({name: "tcp://10.0.0.7:50051"}).unknown == ()


def test_the_card_names_localhost_for_a_wildcard_and_says_so() -> None:
    settings = load({})

    assert (settings.public_grpc_addr, settings.public_http_url) == ("localhost:50051", "http://localhost:8080")
    assert (
        "A2A_PUBLIC_HTTP_URL is not set: the agent card names http://localhost:8080, which only callers on this "
        "machine can reach. Set it to the address that others use, for example https://agent.example.com."
    ) in settings.warnings
    assert any(warning.startswith("A2A_PUBLIC_GRPC_ADDR is not set") for warning in settings.warnings)


def test_the_card_names_the_bound_address_when_it_is_one() -> None:
    settings = load({"A2A_GRPC_ADDR": "10.0.0.7:1", "A2A_HTTP_ADDR": "[2001:db8::7]:2"})

    assert (settings.public_grpc_addr, settings.public_http_url) == ("10.0.0.7:1", "http://[2001:db8::7]:2")
    assert not any("A2A_PUBLIC" in warning for warning in settings.warnings)


def test_public_addresses_win_and_lose_their_last_slash() -> None:
    settings = load(
        {"A2A_PUBLIC_GRPC_ADDR": "agent.example.com:443", "A2A_PUBLIC_HTTP_URL": "https://agent.example.com/"}
    )

    assert (settings.public_grpc_addr, settings.public_http_url) == (
        "agent.example.com:443",
        "https://agent.example.com",
    )
    assert not any("A2A_PUBLIC" in warning for warning in settings.warnings)


def test_the_data_directory_follows_xdg() -> None:
    assert load({}).store.data_dir == Path("~/.local/share/a2a-grpc")
    assert load({"XDG_DATA_HOME": "/data"}).store.data_dir == Path("/data/a2a-grpc")
    assert load({"XDG_DATA_HOME": "/data", "A2A_DATA_DIR": "/mine"}).store.data_dir == Path("/mine")
    # The specification has relative paths ignored.
    assert load({"XDG_DATA_HOME": "data"}).store.data_dir == Path("~/.local/share/a2a-grpc")


def test_two_processes_never_get_the_same_name() -> None:
    assert load({}).process.replica != load({}).process.replica


@pytest.mark.parametrize(
    ("grpc", "http"), [("0.0.0.0:80", "0.0.0.0:80"), ("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "10.0.0.1:80")]
)
def test_two_servers_on_one_port_are_refused(grpc: str, http: str) -> None:
    assert problem(A2A_GRPC_ADDR=grpc, A2A_HTTP_ADDR=http) == (
        f"A2A_GRPC_ADDR is {grpc} and A2A_HTTP_ADDR is {http}, but two servers cannot share a port. "
        "Give one of them another port."
    )


def test_administration_shares_no_port_either() -> None:
    assert problem(A2A_GRPC_ADDR="0.0.0.0:80", A2A_ADMIN_ADDR="localhost:80") == (
        "A2A_GRPC_ADDR is 0.0.0.0:80 and A2A_ADMIN_ADDR is localhost:80, but two servers cannot share a port. "
        "Give one of them another port."
    )


@pytest.mark.parametrize("addr", ["127.0.0.1:0", "127.9.9.9:7", "[::1]:7", "localhost:7"])
def test_administration_listens_on_any_address_of_this_machine_alone(addr: str) -> None:
    assert str(load({"A2A_ADMIN_ADDR": addr}).admin.addr) == addr


@pytest.mark.parametrize("addr", ["[::]:7", "10.0.0.7:7", "[2001:db8::7]:7", "admin.example.com:7", "localhost.evil:7"])
def test_administration_is_refused_where_others_could_connect(addr: str) -> None:
    assert "an address of this machine alone" in problem(A2A_ADMIN_ADDR=addr)


def test_two_servers_on_one_port_of_two_addresses_or_on_free_ports_are_fine() -> None:
    load({"A2A_GRPC_ADDR": "127.0.0.1:80", "A2A_HTTP_ADDR": "127.0.0.2:80"})
    load({"A2A_GRPC_ADDR": "127.0.0.1:0", "A2A_HTTP_ADDR": "127.0.0.1:0"})


def test_patience_below_one_call_is_refused() -> None:
    assert problem(A2A_STORE_TIMEOUT="5", A2A_STORE_PATIENCE="3") == (
        "A2A_STORE_PATIENCE is 3 s, less than a single call may take (A2A_STORE_TIMEOUT is 5 s). "
        "Raise the first, set it to 0, or lower the second."
    )
    assert load({"A2A_STORE_TIMEOUT": "5", "A2A_STORE_PATIENCE": "0"}).store.patience == 0


def test_a_drain_without_time_to_give_back_is_refused() -> None:
    assert problem(A2A_DRAIN_DELAY="5", A2A_DRAIN_GRACE="23") == (
        "A2A_DRAIN_DELAY (5 s) and A2A_DRAIN_GRACE (23 s) together leave nothing of A2A_DRAIN_TIMEOUT (28 s) for "
        "giving back what still runs then. Raise the last, or lower one of the others."
    )
    assert load({"A2A_DRAIN_DELAY": "5", "A2A_DRAIN_GRACE": "22"}).drain.timeout == 28


def test_words_may_be_in_capitals() -> None:
    assert load({"A2A_LOG_LEVEL": "DEBUG", "A2A_LOG_FORMAT": "JSON"}).process.log_level == "debug"


def test_few_shards_on_a_cluster_are_worth_a_warning() -> None:
    def warned(**given: str) -> bool:
        return any(warning.startswith("A2A_SHARDS is ") for warning in load(given).warnings)

    assert warned(A2A_REDIS_URL="redis+cluster://h")
    assert warned(A2A_REDIS_URL="rediss+cluster://h", A2A_SHARDS="15")
    assert not warned(A2A_REDIS_URL="redis+cluster://h", A2A_SHARDS="16")
    assert not warned(A2A_REDIS_URL="redis+sentinel://h/m")
    assert not warned()


def test_keys_that_encrypt_are_checked_and_never_shown() -> None:
    assert "key 2 must be 32 random bytes in base64" in problem(A2A_ENCRYPTION_KEYS=f"{SECRET_KEY},c2hvcnQ=")
    assert "c2hvcnQ" not in problem(A2A_ENCRYPTION_KEYS="c2hvcnQ=")
    assert "key 2 is there twice" in problem(A2A_ENCRYPTION_KEYS=f"{SECRET_KEY},{SECRET_KEY}")
    assert SECRET_KEY not in repr(load({"A2A_ENCRYPTION_KEYS": SECRET_KEY}))


@pytest.mark.parametrize("allowed", ["10.0.0.1/8", "http://localhost", "1.2.3", "a b", ",", "-x", "10.0.0.0/33"])
def test_what_webhooks_may_reach_is_checked(allowed: str) -> None:
    assert "is neither a host nor a network" in problem(A2A_PUSH_ALLOW=allowed)


def test_localhost_stands_for_its_addresses() -> None:
    assert str(load({"A2A_PUSH_ALLOW": "localhost"}).push.allow) == "localhost,127.0.0.0/8,::1/128"


TLS = {"A2A_TLS_CERT_FILE": "c", "A2A_TLS_KEY_FILE": "k"}
MUTUAL = {**TLS, "A2A_TLS_CLIENT_CA_FILE": "ca"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"A2A_TLS_CERT_FILE": "c"}, "A2A_TLS_CERT_FILE is set, but A2A_TLS_KEY_FILE is not. TLS needs both."),
        ({"A2A_TLS_KEY_FILE": "k"}, "A2A_TLS_KEY_FILE is set, but A2A_TLS_CERT_FILE is not. TLS needs both."),
        (
            MUTUAL,
            "A2A_TLS_CLIENT_CA_FILE is set, but nobody is asked for a certificate. Set A2A_TLS_CLIENT_CERT.",
        ),
        (
            {**TLS, "A2A_TLS_CLIENT_CERT": "required"},
            (
                "A2A_TLS_CLIENT_CERT asks for client certificates, but A2A_TLS_CLIENT_CA_FILE does not say whose are "
                "accepted."
            ),
        ),
        (
            {**TLS, "A2A_TLS_GRPC_CLIENT_CERT": "required"},
            (
                "A2A_TLS_GRPC_CLIENT_CERT asks for client certificates, but A2A_TLS_CLIENT_CA_FILE does not say whose "
                "are accepted."
            ),
        ),
        (
            {"A2A_TLS_CLIENT_CA_FILE": "ca", "A2A_TLS_CLIENT_CERT": "optional"},
            "A2A_TLS_CLIENT_CA_FILE is set, but A2A_TLS_CERT_FILE is not. TLS needs both.",
        ),
        (
            {**TLS, "A2A_MTLS": "san"},
            (
                "A2A_MTLS lets callers in by their certificate, but no listener asks for one. Set A2A_TLS_CLIENT_CERT, "
                "or leave A2A_MTLS out."
            ),
        ),
    ],
)
def test_tls_by_half_is_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(given)
    assert caught.value.problems == [problem]


def test_with_tls_the_card_names_https_and_a_plain_url_is_told() -> None:
    assert load(TLS).public_http_url == "https://localhost:8080"
    sentence = (
        "A2A_PUBLIC_HTTP_URL is http://a.example.com, but the HTTP listener speaks TLS: callers who read the card will "
        "not get through. Write https://."
    )
    plain = {**TLS, "A2A_PUBLIC_HTTP_URL": "http://a.example.com"}
    assert sentence in load(plain).warnings
    assert sentence not in load({**plain, "A2A_TLS_TERMINATED": "true"}).warnings


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "A2A_GRPC_ADDR and A2A_HTTP_ADDR"),
        ({"A2A_GRPC_ADDR": "127.0.0.1:1"}, "A2A_HTTP_ADDR"),
        ({"A2A_GRPC_ADDR": "10.0.0.7:1", "A2A_HTTP_ADDR": "localhost:2"}, "A2A_GRPC_ADDR"),
        ({"A2A_GRPC_ADDR": "[::1]:1", "A2A_HTTP_ADDR": "127.1.2.3:2"}, ""),
        ({"A2A_TLS_TERMINATED": "true"}, ""),
        (TLS, ""),
    ],
)
def test_plain_text_where_others_can_reach_it_is_told(given: dict[str, str], names: str) -> None:
    told = [warning for warning in load(given).warnings if "without TLS" in warning]
    assert [warning.partition(" can be reached")[0] for warning in told] == ([names] if names else [])


def test_optional_certificates_over_grpc_are_told() -> None:
    optional = {**MUTUAL, "A2A_TLS_CLIENT_CERT": "optional"}
    assert any(warning.startswith("A2A_TLS_CLIENT_CERT is optional") for warning in load(optional).warnings)
    assert not load(optional).tls.grpc_requires
    for choice in ("none", "required"):
        settings = load({**optional, "A2A_TLS_GRPC_CLIENT_CERT": choice})
        assert not any("is optional" in warning for warning in settings.warnings)
        assert settings.tls.grpc_requires == (choice == "required")


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ("always_on", (False, 1.0)),
        ("always_off", (False, 0.0)),
        ("traceidratio", (False, 0.25)),
        ("parentbased_always_on", (True, 1.0)),
        ("parentbased_always_off", (True, 0.0)),
        ("parentbased_traceidratio", (True, 0.25)),
    ],
)
def test_samplers_mean_what_opentelemetry_says(sampler: str, expected: tuple[bool, float]) -> None:
    otlp = load({"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": "0.25"}).otlp
    assert (otlp.by_parent, otlp.ratio) == expected
