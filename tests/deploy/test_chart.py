"""The Helm chart: what it renders for many values, and which it refuses."""

import copy
import functools
import json
import operator
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import jsonschema
import pytest
import yaml
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from a2a_grpc.server.bindings.grpc.health import LIVENESS
from a2a_grpc.server.bindings.grpc.server import A2A_SERVICE, REGISTRY_SERVICE
from a2a_grpc.server.settings import Settings, load
from a2a_grpc.server.settings.source import all_settings
from tests.deploy import tools
from tests.deploy.checking import RELEASES, check
from tests.deploy.manifests import CHART, COPIES, ChartError, Key, Manifest, helm, key, overlays, template
from tests.deploy.matrix import GATEWAY, MATRIX
from tests.deploy.rendering import STORE, container, over, pod, rendering, settings
from tests.support.replica import replica
from tests.support.servers import StoreServer

pytestmark = pytest.mark.wide

EXAMPLES = sorted(CHART.glob("values-*.yaml"))
VALUES: Manifest = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Manifest = json.loads((CHART / "values.schema.json").read_text())


# -- every set of values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_manifest_is_valid_and_finds_its_pods(values: Manifest) -> None:
    made = rendering(values)
    for manifest in made.values():
        check(manifest)
        assert manifest["metadata"]["labels"].keys() >= {
            "app.kubernetes.io/name",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/version",
            "app.kubernetes.io/component",
            "app.kubernetes.io/part-of",
            "app.kubernetes.io/managed-by",
            "helm.sh/chart",
        }
    assert not [kind for kind, _ in made if kind == "Secret"], "secrets are referred to"
    labels = [m["spec"]["template"]["metadata"]["labels"] for (kind, _), m in made.items() if kind == "Deployment"]
    for selector in selectors(made):
        found = [found for found in labels if selector.items() <= found.items()]
        assert len(found) == 1, "neither nobody's pods nor those of others"


def selectors(made: dict[Key, Manifest]) -> Iterator[dict[str, str]]:
    for (kind, name), manifest in made.items():
        spec = manifest.get("spec", {})
        if kind == "Deployment":
            yield spec["selector"]["matchLabels"]
            for spread in spec["template"]["spec"].get("topologySpreadConstraints", []):
                yield spread["labelSelector"]["matchLabels"]
        elif kind == "PodDisruptionBudget":
            yield spec["selector"]["matchLabels"]
        elif kind == "NetworkPolicy":
            yield spec["podSelector"]["matchLabels"]
        elif kind == "Service" and not name.endswith("-metrics"):
            yield spec["selector"]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_the_server_takes_the_settings(values: Manifest) -> None:
    """Each is known, and together they leave nothing to complain about but who may call and what is encrypted."""
    made = rendering(values)
    known = {setting.variable.name for setting in all_settings(Settings)}
    for (kind, name), manifest in made.items():
        if kind != "Deployment":
            continue
        environment = manifest["spec"]["template"]["spec"]["containers"][0].get("env", [])
        names = settings(made, name).keys() | {variable["name"] for variable in environment}
        assert {name for name in names if name.startswith(("A2A_", "OTEL_"))} <= known
        given = {"A2A_REDIS_URL": "redis://redis:6379/0", "A2A_API_KEYS": f"caller:{'0' * 64}"}
        load(settings(made, name) | given)


@pytest.mark.parametrize("kube", [f"{release}.0" for release in RELEASES])
def test_each_release_of_kubernetes_gets_it(kube: str) -> None:
    for manifest in rendering(kube=kube).values():
        check(manifest, (kube.removesuffix(".0"),))


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(ChartError, match=r"requires kubeVersion: >=1\.27\.0-0"):
        rendering(kube="1.26.0")


@pytest.mark.parametrize("file", [None, *EXAMPLES], ids=lambda file: file and file.stem)
def test_lint(file: Path | None) -> None:
    result = helm("lint", "--strict", CHART, *(("--values", file) if file else ()), values=None if file else STORE)
    assert result.returncode == 0, result.stdout
    assert "WARNING" not in result.stdout


def test_examples_are_complete() -> None:
    """`helm install -f values-NAME.yaml` is enough: each says where the store is."""
    assert {file.stem.removeprefix("values-") for file in EXAMPLES} == set(overlays())
    for file in EXAMPLES:
        template(file)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_helm_3_renders_the_same(file: Path) -> None:
    where = ("template", "a2a-grpc", CHART, "--kube-version", "1.33.0", "--values", file)
    before, now = helm(*where, program=tools.helm_3()), helm(*where)
    assert before.returncode == 0, before.stderr
    documents = [sorted(filter(None, yaml.safe_load_all(made.stdout)), key=key) for made in (before, now)]
    assert documents[0] == documents[1]


def test_package(tmp_path: Path) -> None:
    version = tomllib.loads((tools.ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version
    assert helm("package", CHART, "--destination", tmp_path).returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == [f"a2a-grpc-{chart['version']}.tgz"]


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Manifest, str]] = {
    "no store": ({"redis": {"existingSecret": {"name": ""}}}, "there is no embedded store in a cluster"),
    "two stores": ({"redis": {"url": "redis://redis"}}, "are both set"),
    "a password in the values": (
        {"redis": {"existingSecret": {"name": ""}, "url": "redis://:secret@redis:6379"}},
        r"redis\.url holds a password",
    ),
    "no Redis at all": ({"redis": {"existingSecret": {"name": ""}, "url": "postgres://db"}}, "is none of redis://"),
    "a cluster in one shard": (
        {"redis": {"existingSecret": {"name": ""}, "url": "redis+cluster://a:6379"}},
        r"redis\.shards below 16",
    ),
    "a secret as a setting": ({"settings": {"A2A_API_KEYS": "a:b"}}, r"value of its own in this chart: apiKeys\."),
    "the store as a setting": ({"registry": {"settings": {"A2A_REDIS_URL": "redis://x"}}}, r"registry\.settings\."),
    "another port": ({"settings": {"A2A_GRPC_ADDR": "0.0.0.0:1"}}, r"settings\.A2A_GRPC_ADDR cannot be set"),
    "no setting": ({"settings": {"GRPC_VERBOSITY": "debug"}}, "does not match pattern"),
    "an unknown value": ({"replicaCount": 3}, "additional properties 'replicaCount' not allowed"),
    "an agent and agents": (
        {"agent": "a:b", "agents": {"existingConfigMap": "c"}},
        "only one can be the argument of serve",
    ),
    "files of no file": (
        {"agents": {"existingConfigMap": "c", "files": {"keys.json": "{}"}}},
        r"agents\.files goes with agents\.file",
    ),
    "the agent of the image": (
        {"extraArgs": ["--workers", "4"]},
        "take the place of the command of the image, and with it of the agent",
    ),
    "no name for a Service": ({"fullnameOverride": "2nd"}, "is no name for a Service"),
    "pods that nobody finds": (
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        r"podLabels\.app\.kubernetes\.io/name is set by the chart",
    ),
    "a drain that cannot end": ({"shutdown": {"drainTimeout": 27}}, r"drainTimeout is 27 s; .* are 28 s"),
    "a kubelet that kills": (
        {"shutdown": {"drainGrace": 300, "terminationGracePeriodSeconds": 30}},
        r"terminationGracePeriodSeconds is 30 s; .* are 315 s",
    ),
    "a hook that is not counted": (
        {"shutdown": {"preStopSleep": 10, "terminationGracePeriodSeconds": 30}},
        r"terminationGracePeriodSeconds is 30 s; .* are 40 s",
    ),
    "called after it has stopped": ({"shutdown": {"drainDelay": 3}}, "needs 4 s to find a pod not ready"),
    "probes locked out": ({"tls": {"existingSecret": "tls", "clientCert": "required"}}, "tls/clientCert"),
    "authorities without TLS": ({"tls": {"clientCa": {"existingSecret": "ca"}}}, r"need tls\.existingSecret"),
    "certificates of nobody": ({"tls": {"existingSecret": "tls", "grpcClientCert": "required"}}, r"need tls\.clientCa"),
    "a gateway that encrypts alone": (
        {"gateway": {"backendTls": {"caConfigMap": "ca"}}},
        r"backendTls needs tls\.existingSecret",
    ),
    "headers of no exporter": ({"otlp": {"headers": {"existingSecret": "otlp"}}}, r"need otlp\.endpoint"),
    "a collector without a port": (
        {"otlp": {"endpoint": "http://collector/otlp"}},
        r"otlp\.endpoint http://collector/otlp names no port: write it, mostly :4317",
    ),
    "a collector at an address": ({"otlp": {"endpoint": "http://[2001:db8::1]"}}, "names no port"),
    "an address without one": ({"service": {"grpc": {"type": "LoadBalancer"}}}, r"needs service\.grpc\.headless false"),
    "a card that names no host": (
        {
            "gateway": {
                "enabled": True,
                "grpc": GATEWAY | {"hostnames": ["*.a"]},
                "http": GATEWAY | {"hostnames": ["b"]},
            }
        },
        r"publicGrpcAddr is missing: \*\.a:443 stands for many names",
    ),
    "a route to nowhere": ({"gateway": {"enabled": True}}, r"gateway\.grpc\.parentRefs is missing"),
    "two routes with one name": (
        {"gateway": {"enabled": True, "grpc": GATEWAY | {"hostnames": ["a"]}, "http": GATEWAY | {"hostnames": ["a"]}}},
        'both have the host name "a"',
    ),
    "two routes without names": ({"gateway": {"enabled": True, "grpc": GATEWAY, "http": GATEWAY}}, "has no hostnames"),
    "an ingress to nowhere": ({"ingress": {"enabled": True}}, r"ingress\.grpc\.host is missing"),
    "two protocols on one host": (
        {"ingress": {"enabled": True, "grpc": {"host": "a"}, "http": {"host": "a"}}},
        r"ingress\.grpc\.host and ingress\.http\.host are the same",
    ),
    "fewer than at least": ({"autoscaling": {"enabled": True, "minReplicas": 11}}, "minReplicas is above"),
    "scaling by nothing": (
        {"autoscaling": {"enabled": True, "turnsPerPod": None, "queueAge": None}},
        "needs something to scale by",
    ),
    "KEDA without Prometheus": ({"autoscaling": {"enabled": True, "kind": "keda"}}, "serverAddress is missing"),
    "pods that are never full": (
        {"autoscaling": {"enabled": True}, "settings": {"A2A_MAX_TURNS": 70}},
        "turnsPerPod is 70 and A2A_MAX_TURNS 70",
    ),
    "scaling in the dark": (
        {"autoscaling": {"enabled": True}, "metrics": {"enabled": False}},
        r"metrics\.enabled must be true",
    ),
    "monitoring nothing": ({"metrics": {"enabled": False, "monitor": "PodMonitor"}}, "has nothing to read"),
    "a budget that blocks every drain": ({"podDisruptionBudget": {"maxUnavailable": 0}}, "podDisruptionBudget"),
}


@pytest.mark.parametrize(("values", "says"), REFUSED.values(), ids=REFUSED)
def test_values_that_cannot_work_are_refused(values: Manifest, says: str) -> None:
    with pytest.raises(ChartError, match=says):
        rendering(values)


def test_a_hook_that_this_kubernetes_has_not_is_refused() -> None:
    hook: Manifest = {"shutdown": {"preStopSleep": 5}}
    with pytest.raises(ChartError, match=r"needs Kubernetes 1\.30 or later, this is v1\.29\.0"):
        rendering(hook, kube="1.29.0")
    made = rendering(hook, kube="1.30.0")
    assert container(made)["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    check(made["Deployment", "a2a-grpc"], ("1.30", *RELEASES[1:]))


def test_the_schema_knows_each_value_and_no_other() -> None:
    def compare(values: Any, schema: Manifest, where: str) -> None:
        if schema.get("additionalProperties") is False:
            assert set(schema["properties"]) == set(values), where or "values.yaml"
            for name, inner in schema["properties"].items():
                compare(values[name], inner, f"{where}.{name}")

    # Helm hands it down to charts within charts. A probe may wait before its first look.
    del SCHEMA["properties"]["global"]
    for probe in SCHEMA["properties"]["probes"]["properties"].values():
        del probe["properties"]["initialDelaySeconds"]
    compare(VALUES, SCHEMA, "")
    jsonschema.validate(VALUES, SCHEMA)


def test_a_value_that_is_taken_away_is_missed_or_not_needed() -> None:
    """`gateway:` with nothing below it takes all of that away, and `--reuse-values` what is new."""
    needed: list[tuple[str, ...]] = []

    def without(values: Manifest, schema: Manifest, *where: str) -> Manifest:
        left: Manifest = {}
        for name, value in values.items():
            if name not in schema.get("required", []):
                left[name] = None
                continue
            needed.append((*where, name))
            inner = schema["properties"][name]
            left[name] = without(value, inner, *where, name) if inner.get("additionalProperties") is False else value
        return left

    made = rendering(over(without(VALUES, SCHEMA), STORE))
    for manifest in made.values():
        check(manifest, RELEASES[-1:])
    assert settings(made)["A2A_GRPC_MAX_CONNECTION_AGE"] == "300"

    schema = jsonschema.Draft202012Validator(SCHEMA)
    assert len(needed) > 100
    for *where, name in needed:
        values = copy.deepcopy(VALUES)
        below = functools.reduce(operator.getitem, where, values)
        del below[name]
        [error] = schema.iter_errors(values)
        assert (list(error.absolute_path), error.message) == (where, f"'{name}' is a required property")


def test_the_values_of_the_documentation() -> None:
    page = (tools.ROOT / "docs" / "DEPLOY.md").read_text()
    values, shutdown = [
        yaml.safe_load(block)
        for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        if re.match(r"# agents\.yaml|shutdown:", block)
    ]
    made = rendering(values | shutdown)
    assert container(made)["image"] == "registry.example.com/my-agent:1.0.0"
    assert settings(made)["A2A_DRAIN_TIMEOUT"] == "313"
    assert pod(made)["terminationGracePeriodSeconds"] == 315
    named = re.findall(r"^\| `([^|]*)` \|", page.partition("| value |")[2].partition("\n\n")[0], re.MULTILINE)
    assert {name for cell in named for name in cell.split("`, `")} <= VALUES.keys()


# -- what comes out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shutdown", "timeout", "period"),
    [
        ({}, 28, 30),
        ({"drainGrace": 300}, 313, 315),
        ({"drainDelay": 0, "preStopSleep": 10}, 23, 35),
        ({"drainTimeout": 40}, 40, 42),
        ({"terminationGracePeriodSeconds": 60}, 28, 60),
    ],
)
def test_the_times_of_a_stop_are_worked_out(shutdown: Manifest, timeout: int, period: int) -> None:
    made = rendering({"shutdown": shutdown})
    assert settings(made)["A2A_DRAIN_TIMEOUT"] == str(timeout)
    assert pod(made)["terminationGracePeriodSeconds"] == period
    load(settings(made) | {"A2A_REDIS_URL": "redis://redis"})


def test_a_changed_setting_replaces_the_pods_and_nothing_else_does() -> None:
    def revision(values: Manifest) -> Manifest:
        template: Manifest = rendering(values)["Deployment", "a2a-grpc"]["spec"]["template"]
        return template

    before = revision({})
    assert revision({"settings": {"A2A_LOG_LEVEL": "debug"}}) != before
    one = revision({"agents": {"file": {"agents": {"a": "b:c"}}}})
    assert revision({"agents": {"file": {"agents": {"a": "b:d"}}}}) != one
    assert (
        revision({"replicas": 5, "gateway": {"enabled": True, "grpc": {"enabled": False}, "http": GATEWAY}}) == before
    )


def test_large_numbers_are_written_out() -> None:
    """Helm reads them as floating point, and would write 4.194304e+06."""
    made = settings(
        rendering({"settings": {"A2A_MAX_MESSAGE_BYTES": 4194304, "A2A_LEASE_TTL": 2.5, "A2A_PUSH": False}})
    )
    assert (made["A2A_MAX_MESSAGE_BYTES"], made["A2A_LEASE_TTL"], made["A2A_PUSH"]) == ("4194304", "2.5", "false")


def test_several_agents() -> None:
    agents = {"agents": {"": "front:agent", "acme": {"agent": "support:agent", "limits": {"caller": {"streams": 10}}}}}
    made = rendering({"agents": {"file": agents, "files": {"acme-keys.json": '{"keys": []}\n'}}})
    data = made["ConfigMap", "a2a-grpc-agents"]["data"]
    assert yaml.safe_load(data["agents.yaml"]) == agents
    assert data["acme-keys.json"] == '{"keys": []}\n'
    assert container(made)["args"] == ["serve", "/etc/a2a-grpc/agents/agents.yaml"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container(made)["volumeMounts"]}
    assert mounted["agents"] == "/etc/a2a-grpc/agents"


def test_with_tls_probes_go_over_https_and_find_the_same() -> None:
    """The gRPC probes of Kubernetes speak no TLS, and show no certificate over HTTPS."""
    tls = {"existingSecret": "tls", "clientCa": {"existingConfigMap": "ca"}, "grpcClientCert": "required"}
    made = rendering({"tls": tls})
    probes = {name: container(made)[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "readiness": "/readyz",
        "liveness": "/healthz",
    }
    assert {(probe["scheme"], probe["port"]) for probe in probes.values()} == {("HTTPS", "http")}
    mounted = {mount["name"]: mount["mountPath"] for mount in container(made)["volumeMounts"]}
    for name, value in settings(made).items():
        if name.startswith("A2A_TLS_") and name.endswith("_FILE"):
            assert str(Path(value).parent) in mounted.values()
    assert settings(made)["A2A_TLS_TERMINATED"] == "false"


def test_the_registry_is_a_service_of_its_own_that_agents_reach() -> None:
    made = rendering({"registry": {"enabled": True, "settings": {"A2A_REGISTRY_MAX_AGENTS": 100}}})
    assert container(made, "a2a-grpc-registry")["args"] == ["registry"]
    probes = {name: container(made, "a2a-grpc-registry")[f"{name}Probe"]["grpc"] for name in ("liveness", "readiness")}
    assert {name: probe["service"] for name, probe in probes.items()} == {
        "liveness": LIVENESS,
        "readiness": REGISTRY_SERVICE,
    }
    assert container(made)["readinessProbe"]["grpc"]["service"] == A2A_SERVICE
    assert settings(made)["A2A_REGISTER_URL"] == "http://a2a-grpc-registry-http:8080"
    assert ("Service", "a2a-grpc-registry-http") in made
    ours = settings(made, "a2a-grpc-registry")
    assert ours["A2A_REGISTRY_MAX_AGENTS"] == "100"
    assert "A2A_REGISTRY_MAX_AGENTS" not in settings(made)
    # What the card of the agents says is where the registry may connect to.
    card = {settings(made)["A2A_PUBLIC_GRPC_ADDR"], settings(made)["A2A_PUBLIC_HTTP_URL"].removeprefix("http://")}
    assert {address.split(":")[0] for address in card} == set(ours["A2A_REGISTRY_ALLOW"].split(","))


def test_the_card_tells_where_routes_from_outside_lead() -> None:
    routes = {"enabled": True, "grpc": GATEWAY | {"hostnames": ["g.example.com"]}}
    routes["http"] = GATEWAY | {"hostnames": ["h.example.com"]}
    made = settings(rendering({"gateway": routes}))
    assert made["A2A_PUBLIC_GRPC_ADDR"] == "g.example.com:443"
    assert made["A2A_PUBLIC_HTTP_URL"] == "https://h.example.com"
    given = {"publicGrpcAddr": "elsewhere:1", "publicHttpUrl": "https://elsewhere/a"}
    made = settings(rendering({"gateway": routes} | given))
    assert made["A2A_PUBLIC_GRPC_ADDR"] == "elsewhere:1"
    assert made["A2A_PUBLIC_HTTP_URL"] == "https://elsewhere/a"


def test_secrets_are_only_referred_to() -> None:
    rendered = template(CHART / "values-production.yaml")
    made = {key(manifest): manifest for manifest in yaml.safe_load_all(rendered) if manifest}
    references = {
        variable["name"]: tuple(variable["valueFrom"]["secretKeyRef"].values())
        for variable in container(made)["env"]
        if "secretKeyRef" in variable.get("valueFrom", {})
    }
    assert references == {
        "A2A_REDIS_URL": ("a2a-grpc", "redis-url"),
        "A2A_API_KEYS": ("a2a-grpc", "api-keys"),
        "A2A_ENCRYPTION_KEYS": ("a2a-grpc", "encryption-keys"),
    }
    secret = {setting.variable.name for setting in all_settings(Settings) if setting.variable.secret}
    assert references.keys() <= secret
    assert not settings(made).keys() & secret
    more: Manifest = {
        "otlp": {"headers": {"existingSecret": "otlp"}},
        "registry": {"registerHeader": {"existingSecret": "registry"}},
    }
    rendered = template(CHART / "values-production.yaml", values=more)
    made = {key(manifest): manifest for manifest in yaml.safe_load_all(rendered) if manifest}
    given = {variable["name"] for variable in container(made)["env"] if "secretKeyRef" in variable.get("valueFrom", {})}
    assert given == secret, "each can be given"


@pytest.mark.parametrize("name", sorted(s.variable.name for s in all_settings(Settings) if s.variable.secret))
def test_no_secret_is_taken_as_a_setting(name: str) -> None:
    with pytest.raises(ChartError, match=re.escape(f"settings.{name} has a value of its own")):
        rendering({"settings": {name: "value"}})


def test_a_header_for_a_registry_elsewhere() -> None:
    """Not only for the registry of the release, as it was once."""
    made = rendering({"registry": {"registerHeader": {"existingSecret": "registry"}}})
    [header] = [variable for variable in container(made)["env"] if variable["name"] == "A2A_REGISTER_HEADER"]
    assert header["valueFrom"] == {"secretKeyRef": {"name": "registry", "key": "register-header"}}


def named(release: str, values: Manifest, namespace: str = "agents") -> dict[Key, Manifest]:
    result = helm("template", release, CHART, "--namespace", namespace, values=over(STORE, values))
    assert result.returncode == 0, result.stderr
    return {key(manifest): manifest for manifest in yaml.safe_load_all(result.stdout) if manifest}


EVERYTHING: Manifest = {
    "registry": {"enabled": True},
    "agents": {"file": {"agents": {"acme": "a:b"}}},
    "autoscaling": {"enabled": True},
    "otlp": {"endpoint": "http://collector:4317"},
    "metrics": {"monitor": "ServiceMonitor", "rules": {"enabled": True}, "dashboard": {"enabled": True}},
    "gateway": {"enabled": True, "grpc": GATEWAY | {"hostnames": ["a"]}, "http": GATEWAY | {"hostnames": ["b"]}},
}


@pytest.mark.parametrize("release", ["true", "e" * 53])
def test_a_release_may_have_any_name_that_helm_takes(release: str) -> None:
    """`true` is no text in YAML, and 53 characters are the most."""
    for (_, name), manifest in named(release, EVERYTHING).items():
        check(manifest, RELEASES[-1:])
        assert len(name) <= 63
        assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == release


def test_two_releases_in_one_namespace_share_nothing() -> None:
    one, other = named("one", EVERYTHING), named("other", EVERYTHING)
    assert not one.keys() & other.keys()
    labels = [m["spec"]["template"]["metadata"]["labels"] for (kind, _), m in other.items() if kind == "Deployment"]
    assert len(labels) == 2
    for selector in selectors(one):
        assert not [found for found in labels if selector.items() <= found.items()]


def test_the_autoscaler_alone_says_how_many_pods() -> None:
    most = load({"A2A_REDIS_URL": "redis://redis"}).engine.max_turns
    with pytest.raises(ChartError, match=f"turnsPerPod is {most} and A2A_MAX_TURNS {most}"):
        rendering({"autoscaling": {"enabled": True, "turnsPerPod": most}})
    made = rendering({"autoscaling": {"enabled": True, "minReplicas": 3}})
    assert "replicas" not in made["Deployment", "a2a-grpc"]["spec"]
    spec = made["HorizontalPodAutoscaler", "a2a-grpc"]["spec"]
    turns, age = spec["metrics"]
    assert turns["pods"]["metric"]["name"] == "a2a_turns_active"
    assert turns["pods"]["target"] == {"type": "AverageValue", "averageValue": "70"}
    assert age["external"]["metric"]["name"] == "a2a_queue_age_seconds"
    assert age["external"]["target"] == {"type": "Value", "value": "5"}


def test_keda_asks_for_this_release_and_takes_silence_for_no_answer() -> None:
    values: Manifest = {
        "autoscaling": {"enabled": True, "kind": "keda", "keda": {"serverAddress": "http://prometheus"}}
    }
    scaled = named("one", values, namespace="elsewhere")["ScaledObject", "one-a2a-grpc"]["spec"]
    asked = [trigger["metadata"] for trigger in scaled["triggers"]]
    ours = '{namespace="elsewhere",app_kubernetes_io_instance="one"}'
    assert [each["query"] for each in asked] == [f"sum(a2a_turns_active{ours})", f"max(a2a_queue_age_seconds{ours})"]
    # Otherwise no series is 0, and the pods go while Prometheus cannot read them.
    assert [each["ignoreNullValues"] for each in asked] == ["false", "false"]


def test_the_alerts_and_the_dashboard_are_those_of_the_observability_folder() -> None:
    values: Manifest = {
        "metrics": {"monitor": "PodMonitor", "rules": {"enabled": True}, "dashboard": {"enabled": True}}
    }
    made = rendering(values)
    dashboard = made["ConfigMap", "a2a-grpc-dashboard"]
    assert dashboard["data"] == {"a2a-grpc.json": COPIES["dashboard.json"].read_text()}
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    # But that no replica is left can only be said of one release.
    absent = "absent(a2a_turns_limit)"
    ours = 'absent(a2a_turns_limit{namespace="agents",app_kubernetes_io_instance="a2a-grpc"})'
    wanted = COPIES["rules.yaml"].read_text()
    assert wanted.count(absent) == 1
    assert made["PrometheusRule", "a2a-grpc"]["spec"] == yaml.safe_load(wanted.replace(absent, ours))
    # Who reads the pods otherwise gives them other labels.
    made = rendering(over(values, {"metrics": {"monitor": "none"}}))
    assert made["PrometheusRule", "a2a-grpc"]["spec"] == yaml.safe_load(wanted)
    assert not [kind for kind, name in rendering() if kind == "PrometheusRule" or name.endswith("-dashboard")]
    for name, source in COPIES.items():
        assert (CHART / "files" / name).read_text() == source.read_text(), "run `make manifests`"


@pytest.mark.parametrize(
    ("url", "ports"),
    [
        ("redis://redis", {6379}),
        ("rediss://redis:6380/0?ssl_ca_certs=/etc/a2a-grpc/redis/ca.crt", {6379, 6380}),
        ("redis+sentinel://a:26379,[2001:db8::1]:26380/main/0", {6379, 26379, 26380}),
        ("redis+sentinel://a,b/main", {6379, 26379}),
        ("rediss+sentinel://a:26380,[2001:db8::1]/main?ssl_ca_certs=/ca.crt", {6379, 26379, 26380}),
        ("redis+cluster://a:7000,b:7001", {6379, 7000, 7001}),
    ],
)
def test_pods_may_connect_to_the_store_that_the_values_name(url: str, ports: set[int]) -> None:
    assert opened(url, 6379) == ports


@pytest.mark.parametrize("url", ["redis://redis", "rediss://[2001:db8::1]/0", "redis+cluster://a:6380,b"])
def test_a_host_without_a_port_has_the_one_of_the_store(url: str) -> None:
    """Also where the values open another one."""
    assert opened(url, 6380) == {6379, 6380}


def opened(url: str, port: int) -> set[int]:
    """Where the pods may connect to for the store, with `port` in the values."""
    values: Manifest = {
        "redis": {"existingSecret": {"name": ""}, "url": url, "shards": 16},
        "networkPolicy": {"redis": {"ports": [port]}},
    }
    _, store, _ = rendering(values)["NetworkPolicy", "a2a-grpc"]["spec"]["egress"]
    return {port["port"] for port in store["ports"]}


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        ("http://collector:4317", 4317),
        ("http://[2001:db8::1]:4318/otlp", 4318),
        ("https://collector:4317", 4317),
        # As gRPC takes it where none is named.
        ("https://collector", 443),
        ("https://[2001:db8::1]/otlp", 443),
    ],
)
def test_pods_may_connect_to_the_collector(endpoint: str, port: int) -> None:
    made = rendering({"otlp": {"endpoint": endpoint}, "networkPolicy": {"https": {"enabled": False}}})
    *_, collector = made["NetworkPolicy", "a2a-grpc"]["spec"]["egress"]
    assert collector["ports"] == [{"port": port, "protocol": "TCP"}]
    load(settings(made) | {"A2A_REDIS_URL": "redis://redis"})


def test_it_listens_where_pods_have_other_addresses() -> None:
    made = settings(rendering({"listen": "[::]", "publicGrpcAddr": "[2001:db8::1]:443"}))
    listening = load(made | {"A2A_REDIS_URL": "redis://redis"})
    assert listening.metrics.addr is not None
    for addr, port in ((listening.grpc.addr, 50051), (listening.http.addr, 8080), (listening.metrics.addr, 9464)):
        assert (addr.host, addr.port) == ("::", port)
    assert made["A2A_PUBLIC_GRPC_ADDR"] == "[2001:db8::1]:443"


def test_tainted_nodes_are_no_places_to_spread_to() -> None:
    """Counted as empty ones, they forbid a second pod on each of the others where the spread is a must."""
    for spread in pod(rendering())["topologySpreadConstraints"]:
        assert spread["nodeTaintsPolicy"] == "Honor"


async def test_the_server_runs_with_what_a_pod_gets(one_store_server: StoreServer) -> None:
    """The settings as they are rendered, and what the probes ask for."""
    made = rendering()
    # Several servers of the tests run on one machine.
    given = {name: value for name, value in settings(made).items() if name != "A2A_METRICS_ADDR"}
    async with (
        replica(redis_url=one_store_server.url, env=given) as one,
        grpc.aio.insecure_channel(one.grpc_addr) as channel,
    ):
        health: Any = HealthStub(channel)
        for probe in ("startup", "readiness", "liveness"):
            request = HealthCheckRequest(service=container(made)[f"{probe}Probe"]["grpc"]["service"])
            answer = await health.Check(request, timeout=5)
            assert answer.status == HealthCheckResponse.SERVING


def test_notes_say_what_is_left_to_do() -> None:
    install = ("install", "a2a-grpc", CHART, "--namespace", "agents", "--dry-run=client")
    open_to_all = helm(*install, values=STORE).stdout
    assert "dns:///a2a-grpc.agents:50051" in open_to_all
    assert "WARNING: no authentication is configured" in open_to_all
    assert "The pods start when the Secret store has the key redis-url." in open_to_all
    assert "they reach the store at port 6379 alone" in open_to_all
    careful: Manifest = over(STORE, {"apiKeys": {"existingSecret": "store"}})
    assert "WARNING" not in helm(*install, values=careful).stdout
    outside = helm(*install, values=over(careful, {"service": {"http": {"type": "LoadBalancer"}}})).stdout
    assert "the pods speak plain text" in outside
