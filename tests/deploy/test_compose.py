"""The composition of deploy/compose: its parts name each other, and Envoy takes its configuration."""

import subprocess
from typing import Any

import pytest
import yaml

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.settings import Settings
from a2a_grpc.server.settings.source import all_settings
from tests.support.replica import ROOT
from tests.upgrade.envoy import binary

pytestmark = pytest.mark.wide

FOLDER = ROOT / "deploy" / "compose"


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def clusters() -> dict[str, Any]:
    return {cluster["name"]: cluster for cluster in read("envoy.yaml")["static_resources"]["clusters"]}


def test_settings_are_known() -> None:
    known = {setting.variable.name for setting in all_settings(Settings)}
    assert set(read("compose.yaml")["services"]["agent"]["environment"]) <= known


def test_the_front_finds_the_replicas_and_asks_for_their_health() -> None:
    services = read("compose.yaml")["services"]
    service = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].full_name
    checks = {
        "grpc": {"grpc_health_check": {"service_name": service}},
        "http": {"http_health_check": {"path": "/readyz"}},
    }
    for name, port in (("grpc", 50051), ("http", 8080)):
        [endpoints] = clusters()[name]["load_assignment"]["endpoints"]
        [endpoint] = endpoints["lb_endpoints"]
        assert endpoint["endpoint"]["address"]["socket_address"] == {"address": "agent", "port_value": port}
        [check] = clusters()[name]["health_checks"]
        assert check.items() >= checks[name].items()
        assert clusters()[name]["lb_policy"] == "ROUND_ROBIN"
    assert services["agent"]["deploy"]["replicas"] == 2
    # Who calls is anonymous: nothing of it is for other machines.
    assert services["front"]["ports"] == ["127.0.0.1:50051:50051", "127.0.0.1:8080:8080"]


def test_replicas_leave_after_the_front_has_noticed() -> None:
    seconds = [
        float(check["interval"][:-1]) * check["unhealthy_threshold"]
        for check in (cluster["health_checks"][0] for cluster in clusters().values())
    ]
    assert float(read("compose.yaml")["services"]["agent"]["environment"]["A2A_DRAIN_DELAY"]) > max(seconds)


def test_what_is_told_goes_to_the_collector() -> None:
    port = read("collector.yaml")["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].rpartition(":")[2]
    agent = read("compose.yaml")["services"]["agent"]
    assert agent["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://collector:{port}"


@pytest.mark.skipif(binary() is None, reason="there is no envoy: its package has none for this platform")
def test_envoy_takes_its_configuration() -> None:
    path = binary()
    assert path is not None
    done = subprocess.run(
        [path, "--mode", "validate", "--config-path", str(FOLDER / "envoy.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
