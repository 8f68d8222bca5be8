"""What the objects of the chart point at: it is there, and it is the right one."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.deploy.manifests import NAME, NAMESPACE, Key, Manifest
from tests.deploy.matrix import GATEWAY, MATRIX
from tests.deploy.rendering import STORE, container, over, rendering, settings

pytestmark = pytest.mark.wide

Made = dict[Key, Manifest]

over_all_values = pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)


# -- the pods, and how they are found ----------------------------------------------------------------------------------


class Component(NamedTuple):
    """A Deployment, as others see it."""

    name: str
    labels: dict[str, str]
    """Of its pods."""
    spec: Manifest
    """Of its pods."""

    @property
    def container(self) -> Manifest:
        """The one with the service in it."""
        first: Manifest = self.spec["containers"][0]
        return first

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}


def components(made: Made) -> list[Component]:
    return [
        Component(name, manifest["spec"]["template"]["metadata"]["labels"], manifest["spec"]["template"]["spec"])
        for (kind, name), manifest in made.items()
        if kind == "Deployment"
    ]


def agents(made: Made) -> Component:
    [found] = [each for each in components(made) if each.labels["app.kubernetes.io/component"] == "agent"]
    return found


def selected(made: Made, selector: dict[str, str]) -> list[Component]:
    return [each for each in components(made) if selector.items() <= each.labels.items()]


def port_of(service: Manifest, port: int | str) -> Manifest:
    """Of a Service, by its number or its name."""
    [found] = [each for each in service["spec"]["ports"] if port in (each["port"], each["name"])]
    return dict(found)


def texts(value: Any) -> Iterator[str]:
    """All that stand in a value, keys included."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


# -- callers -----------------------------------------------------------------------------------------------------------


def backends(made: Made) -> Iterator[tuple[str, str, int | str]]:
    """What comes in: the protocol, the Service and its port."""
    for (kind, name), manifest in made.items():
        if kind in ("GRPCRoute", "HTTPRoute"):
            for rule in manifest["spec"]["rules"]:
                for backend in rule["backendRefs"]:
                    yield kind.removesuffix("Route").lower(), backend["name"], backend["port"]
        elif kind == "Ingress":
            for rule in manifest["spec"]["rules"]:
                for path in rule["http"]["paths"]:
                    service = path["backend"]["service"]
                    yield name.rpartition("-")[2], service["name"], service["port"]["name"]


@over_all_values
def test_what_comes_in_goes_to_the_agents_by_its_protocol(values: Manifest) -> None:
    made = rendering(values)
    found = []
    for protocol, name, port in backends(made):
        service = made["Service", name]
        assert port_of(service, port)["targetPort"] == protocol
        assert selected(made, service["spec"]["selector"]) == [agents(made)]
        found.append(protocol)
    ways_in = [way for way in ("gateway", "ingress") if values.get(way, {}).get("enabled")]
    assert sorted(found) == sorted(["grpc", "http"] * len(ways_in))


@over_all_values
def test_services_lead_to_ports_that_the_pods_have(values: Manifest) -> None:
    made = rendering(values)
    listening = {"grpc": 50051, "http": 8080, "metrics": 9464}
    for each in components(made):
        assert each.ports.items() <= listening.items()
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            found = each.container[probe]
            assert found.get("grpc", {}).get("port") == each.ports["grpc"] or found["httpGet"]["port"] in each.ports
    for (kind, _), manifest in made.items():
        if kind == "Service":
            for port in manifest["spec"]["ports"]:
                assert port["name"] == port["targetPort"]
                for each in selected(made, manifest["spec"]["selector"]):
                    assert port["targetPort"] in each.ports


@over_all_values
def test_addresses_are_those_of_services(values: Manifest) -> None:
    """What the cards say and where agents register, unless the values name a host from outside."""
    made = rendering(values)
    for each in components(made):
        given = settings(made, each.name)
        for setting, protocol in (
            ("A2A_PUBLIC_GRPC_ADDR", "grpc"),
            ("A2A_PUBLIC_HTTP_URL", "http"),
            ("A2A_REGISTER_URL", "http"),
        ):
            if setting not in given:
                continue
            url = urlsplit(given[setting] if protocol == "http" else f"//{given[setting]}")
            assert url.hostname is not None
            if any(url.hostname in text for text in texts(values)):
                continue
            service = made["Service", url.hostname]
            assert url.port is not None
            assert port_of(service, url.port)["targetPort"] == protocol
            [behind] = selected(made, service["spec"]["selector"])
            assert behind == each if setting != "A2A_REGISTER_URL" else behind != each
        for name in filter(None, given.get("A2A_REGISTRY_ALLOW", "").split(",")):
            assert selected(made, made["Service", name]["spec"]["selector"]) == [agents(made)]


@over_all_values
def test_a_policy_of_tls_is_for_every_service_behind_a_route(values: Manifest) -> None:
    made = rendering(values)
    for (kind, _), manifest in made.items():
        if kind == "BackendTLSPolicy":
            targets = [(target["kind"], target["name"]) for target in manifest["spec"]["targetRefs"]]
            routed = {("Service", name) for _, name, _ in backends(made)}
            assert set(targets) == routed
            assert routed <= made.keys()
            assert len(targets) == len(routed)


@pytest.mark.parametrize(
    ("values", "protocols"),
    [
        ({}, {"": "kubernetes.io/h2c", "-http": "http"}),
        ({"tls": {"existingSecret": "t"}}, {"": "https", "-http": "https"}),
    ],
)
def test_services_say_what_is_spoken(values: Manifest, protocols: dict[str, str]) -> None:
    """Gateways and meshes go by it: without it a gateway speaks HTTP/1.1 to what takes HTTP/2 alone."""
    made = rendering(values | {"registry": {"enabled": True}, "metrics": {"monitor": "ServiceMonitor"}})
    for name in (NAME, f"{NAME}-registry"):
        for suffix, protocol in protocols.items():
            [port] = made["Service", f"{name}{suffix}"]["spec"]["ports"]
            assert port["appProtocol"] == protocol
    # It never speaks TLS.
    [port] = made["Service", f"{NAME}-metrics"]["spec"]["ports"]
    assert port["appProtocol"] == "http"


def test_a_gateway_cuts_no_stream() -> None:
    routes: Manifest = {"gateway": {"enabled": True, "grpc": {"enabled": False}, "http": GATEWAY}}
    [rule] = rendering(routes)["HTTPRoute", NAME]["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s"}
    routes["gateway"]["http"] = GATEWAY | {"requestTimeout": "30s"}
    [rule] = rendering(routes)["HTTPRoute", NAME]["spec"]["rules"]
    assert rule["timeouts"] == {"request": "30s"}
    # As the gateway has it by itself.
    routes["gateway"]["http"] = GATEWAY | {"requestTimeout": ""}
    [rule] = rendering(routes)["HTTPRoute", NAME]["spec"]["rules"]
    assert "timeouts" not in rule


# -- what reads the metrics, and goes by them --------------------------------------------------------------------------


def monitors(made: Made) -> list[tuple[str, Manifest]]:
    return [(kind, each["spec"]) for (kind, _), each in made.items() if kind in ("PodMonitor", "ServiceMonitor")]


@over_all_values
def test_a_monitor_reads_every_pod_at_a_port_that_it_has(values: Manifest) -> None:
    made = rendering(values)
    for kind, spec in monitors(made):
        labels = spec["selector"]["matchLabels"]
        if kind == "PodMonitor":
            [endpoint] = spec["podMetricsEndpoints"]
            read = [(each, endpoint["port"]) for each in selected(made, labels)]
        else:
            [endpoint] = spec["endpoints"]
            read = [
                (each, port_of(manifest, endpoint["port"])["targetPort"])
                for (of, _), manifest in made.items()
                if of == "Service" and labels.items() <= manifest["metadata"]["labels"].items()
                for each in selected(made, manifest["spec"]["selector"])
            ]
        assert sorted(each.name for each, _ in read) == sorted(each.name for each in components(made)), "each once"
        for each, port in read:
            assert settings(made, each.name)["A2A_METRICS_ADDR"].endswith(f":{each.ports[port]}")
        assert set(spec["podTargetLabels"]) <= set.intersection(*(set(each.labels) for each in components(made)))


def asked(made: Made) -> Iterator[dict[str, str]]:
    """The labels that autoscalers, and the alert of this release, look for."""
    for (kind, _), manifest in made.items():
        if kind == "HorizontalPodAutoscaler":
            for metric in manifest["spec"]["metrics"]:
                if metric["type"] == "External":
                    yield metric["external"]["metric"]["selector"]["matchLabels"]
        elif kind == "ScaledObject":
            for trigger in manifest["spec"]["triggers"]:
                yield matched(trigger["metadata"]["query"])
        elif kind == "PrometheusRule":
            for group in manifest["spec"]["groups"]:
                yield from (matched(rule["expr"]) for rule in group["rules"] if rule["expr"].startswith("absent("))


def matched(query: str) -> dict[str, str]:
    [labels] = re.findall(r"\{(.*)\}", query)
    return dict(re.findall(r'(\w+)="([^"]*)"', labels))


@over_all_values
def test_what_is_asked_of_prometheus_has_the_labels_of_the_agents(values: Manifest) -> None:
    made = rendering(values)
    # Without one the labels are up to who reads the pods.
    for _, spec in monitors(made):
        ours = agents(made).labels
        # As Prometheus writes the names of labels.
        there = {re.sub(r"[^a-zA-Z0-9_]", "_", label): ours[label] for label in spec["podTargetLabels"]}
        for labels in asked(made):
            assert "app_kubernetes_io_instance" in labels, "of this release alone"
            assert labels.items() <= (there | {"namespace": NAMESPACE}).items()


def test_a_job_is_named_after_the_release_whatever_reads_it() -> None:
    """`NAMESPACE/NAME`, as a PodMonitor has it by itself: alerts tell releases apart by it."""
    made = rendering({"metrics": {"monitor": "ServiceMonitor"}})
    [endpoint] = made["ServiceMonitor", NAME]["spec"]["endpoints"]
    [relabeling] = endpoint["relabelings"]
    meta = {"namespace": NAMESPACE, "service": f"{NAME}-metrics"}
    joined = relabeling["separator"].join(meta[label] for label in relabeling["sourceLabels"])
    # Prometheus takes it as a whole, and $1 where nothing is said of a replacement.
    found = re.fullmatch(relabeling["regex"], joined)
    assert found is not None
    assert relabeling.keys() == {"sourceLabels", "separator", "regex", "targetLabel"}
    assert (relabeling["targetLabel"], found[1]) == ("job", f"{NAMESPACE}/{NAME}")


def test_pods_that_are_not_ready_are_read_as_well() -> None:
    service = rendering({"metrics": {"monitor": "ServiceMonitor"}})["Service", f"{NAME}-metrics"]["spec"]
    assert (service["publishNotReadyAddresses"], service["clusterIP"]) == (True, "None")


@over_all_values
def test_autoscalers_scale_the_agents(values: Manifest) -> None:
    made = rendering(values)
    for (kind, _), manifest in made.items():
        if kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            target = manifest["spec"]["scaleTargetRef"]
            assert (target.get("kind", "Deployment"), target["name"]) == ("Deployment", agents(made).name)
            assert target.get("apiVersion", "apps/v1") == "apps/v1"


def test_a_pod_that_serves_nobody_blocks_no_drain() -> None:
    made = rendering({"registry": {"enabled": True}})
    budgets = [manifest["spec"] for (kind, _), manifest in made.items() if kind == "PodDisruptionBudget"]
    assert [each["unhealthyPodEvictionPolicy"] for each in budgets] == ["AlwaysAllow", "AlwaysAllow"]


# -- what a pod is made of ---------------------------------------------------------------------------------------------

_FILE = re.compile(r"/etc/a2a-grpc/[^\s,;?&\"']+")


@over_all_values
def test_files_that_are_named_are_mounted(values: Manifest) -> None:
    made = rendering(values)
    for each in components(made):
        given = [*settings(made, each.name).values(), *each.container.get("args", [])]
        given += [variable.get("value", "") for variable in each.container.get("env", [])]
        named = [PurePosixPath(file) for text in given for file in _FILE.findall(text)]
        volumes = {volume["name"]: volume for volume in each.spec["volumes"]}
        mounts = {PurePosixPath(mount["mountPath"]): mount for mount in each.container["volumeMounts"]}
        assert {mount["name"] for mount in mounts.values()} <= volumes.keys()
        for file in named:
            mount = mounts[file.parent]
            assert mount["readOnly"] is True
            volume = volumes[mount["name"]]
            source = volume.get("configMap") or volume["secret"]
            if "items" in source:
                assert file.name in {item["path"] for item in source["items"]}
            elif ("ConfigMap", source.get("name")) in made:
                assert file.name in made["ConfigMap", source["name"]]["data"]
        unnamed = mounts.keys() - {file.parent for file in named}
        # The last is named by the URL of the store, which is in a Secret.
        theirs = [mount["mountPath"] for mount in values.get("extraVolumeMounts", [])]
        assert unnamed <= {PurePosixPath(folder) for folder in ("/tmp", *theirs, "/etc/a2a-grpc/redis")}


def test_every_key_that_signs_is_named() -> None:
    made = rendering({"signingKeys": {"existingSecret": "signing", "keys": ["new.pem", "old.pem"]}})
    keys = settings(made)["A2A_SIGNING_KEYS"]
    assert keys == "/etc/a2a-grpc/signing/new.pem,/etc/a2a-grpc/signing/old.pem"


@over_all_values
def test_variables_are_made_of_earlier_ones(values: Manifest) -> None:
    made = rendering(values)
    for each in components(made):
        before: set[str] = set()
        for variable in each.container.get("env", []):
            assert set(re.findall(r"\$\(([^)]*)\)", variable.get("value", ""))) <= before
            assert variable["name"] not in before
            before.add(variable["name"])
        for text in settings(made, each.name).values():
            assert "$(" not in text, "nothing is put in there"


@over_all_values
def test_objects_that_pods_need_are_rendered_or_named_by_the_values(values: Manifest) -> None:
    made = rendering(values)
    theirs = set(texts(over(STORE, values)))
    for each in components(made):
        for kind, name in needed(each.spec):
            assert (kind, name) in made or name in theirs, f"{kind} {name}"
        # Its settings are its own, and the others are after it.
        assert each.container["envFrom"][0] == {"configMapRef": {"name": each.name}}
        account = each.spec["serviceAccountName"]
        assert ("ServiceAccount", account) in made or account == "default" or account in theirs


def needed(spec: Manifest) -> Iterator[Key]:
    for each in chain(spec.get("initContainers", []), spec["containers"]):
        for source in each.get("envFrom", []):
            for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if field in source:
                    yield kind, source[field]["name"]
        for variable in each.get("env", []):
            if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                yield "Secret", reference["name"]
    for volume in spec["volumes"]:
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
        if "secret" in volume:
            yield "Secret", volume["secret"]["secretName"]
    for secret in spec.get("imagePullSecrets", []):
        yield "Secret", secret["name"]


def test_traces_say_of_which_pod_they_are_and_are_as_many_as_the_values_say() -> None:
    made = rendering({"otlp": {"endpoint": "http://collector:4317", "samplingRatio": 0.25}})
    assert settings(made)["OTEL_TRACES_SAMPLER_ARG"] == "0.25"
    variables = {variable.pop("name"): variable for variable in container(made)["env"]}
    assert variables["K8S_POD_NAME"] == {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert variables["K8S_NAMESPACE_NAME"] == {"valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    attributes = "k8s.namespace.name=$(K8S_NAMESPACE_NAME),k8s.pod.name=$(K8S_POD_NAME)"
    assert variables["OTEL_RESOURCE_ATTRIBUTES"] == {"value": attributes}


# -- who may connect to whom -------------------------------------------------------------------------------------------


def policies(made: Made) -> Iterator[tuple[Component, Manifest]]:
    for (kind, _), manifest in made.items():
        if kind == "NetworkPolicy":
            [each] = selected(made, manifest["spec"]["podSelector"]["matchLabels"])
            yield each, manifest["spec"]


def admits(rules: list[Manifest], peers: str, port: int, other: Component) -> bool:
    """Whether a rule is for `other` at this port. `peers`: the field of a rule that holds them."""
    return any(
        {"port": port, "protocol": "TCP"} in rule["ports"]
        and (peers not in rule or any(includes(peer, other) for peer in rule[peers]))
        for rule in rules
    )


def includes(peer: Manifest, other: Component) -> bool:
    """Of pods in the same namespace."""
    if "ipBlock" in peer or "namespaceSelector" in peer:
        return False
    labels: dict[str, str] = peer["podSelector"].get("matchLabels", {})
    return labels.items() <= other.labels.items()


@over_all_values
def test_agents_and_their_registry_may_connect_to_each_other(values: Manifest) -> None:
    made = rendering(values)
    found = list(policies(made))
    assert len(found) == (len(components(made)) if values.get("networkPolicy", {}).get("enabled", True) else 0)
    for one, ours in found:
        for other, theirs in found:
            if one is not other:
                for port in ("grpc", "http"):
                    assert admits(ours["egress"], "to", other.ports[port], other)
                    assert admits(theirs["ingress"], "from", other.ports[port], one)


@over_all_values
def test_pods_may_connect_to_where_they_export_to(values: Manifest) -> None:
    made = rendering(values)
    for each, policy in policies(made):
        endpoint = settings(made, each.name).get("OTEL_EXPORTER_OTLP_ENDPOINT")
        if endpoint is not None:
            wanted: Manifest = {"ports": [{"port": urlsplit(endpoint).port, "protocol": "TCP"}]}
            if peers := values["otlp"].get("to"):
                wanted["to"] = peers
            assert wanted in policy["egress"]


@over_all_values
def test_the_metrics_may_be_read_where_they_are(values: Manifest) -> None:
    made = rendering(values)
    for each, policy in policies(made):
        read = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
        assert {each.ports[name] for name in each.ports} <= set(read)
