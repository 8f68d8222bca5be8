"""The manifests against a real API server: every field, each rule of the custom resources, and the admission of pods.

Building it takes minutes the first time.
"""

from collections.abc import Iterator

import pytest
import yaml

from tests.deploy import manifests
from tests.deploy.cluster import Cluster, api_server
from tests.deploy.matrix import MATRIX
from tests.deploy.rendering import STORE, over

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

NAMESPACE = manifests.NAMESPACE
DRY_RUN = ("apply", "--namespace", NAMESPACE, "--server-side", "--dry-run=server", "-f", "-")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With a namespace that takes pods of the standard "restricted" alone."""
    with api_server() as running:
        assert running.kubectl("create", "namespace", NAMESPACE).returncode == 0
        label = "pod-security.kubernetes.io"
        levels = (f"{label}/{mode}=restricted" for mode in ("enforce", "warn", "audit"))
        assert running.kubectl("label", "namespace", NAMESPACE, *levels).returncode == 0
        yield running


@pytest.mark.parametrize("overlay", [None, *manifests.overlays()])
def test_what_kustomize_makes_is_taken(cluster: Cluster, overlay: str | None) -> None:
    folder = manifests.KUBERNETES / ("base" if overlay is None else f"overlays/{overlay}")
    built = cluster.kubectl("kustomize", folder).stdout
    taken = cluster.kubectl(*DRY_RUN, stdin=built)
    assert taken.returncode == 0, taken.stderr
    assert "Warning" not in taken.stderr
    assert len(taken.stdout.splitlines()) == len(list(yaml.safe_load_all(built)))


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_what_the_chart_renders_is_taken(cluster: Cluster, values: manifests.Manifest) -> None:
    taken = cluster.kubectl(*DRY_RUN, stdin=manifests.template(values=over(STORE, values), kube="1.36.0"))
    assert taken.returncode == 0, taken.stderr
    # Containers that somebody adds are theirs to secure.
    assert "Warning" not in taken.stderr or "sidecars" in values


def test_pods_of_the_chart_are_let_in_where_only_restricted_ones_are(cluster: Cluster) -> None:
    rendered = yaml.safe_load_all(manifests.template(manifests.CHART / "values-production.yaml"))
    [deployment] = [manifest for manifest in rendered if manifest and manifest["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    del spec["serviceAccountName"]  # there is only the namespace yet
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}
    # Nobody makes accounts here: that is for a controller.
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    assert cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=yaml.safe_dump(account)).returncode == 0
    taken = cluster.kubectl(*DRY_RUN, stdin=yaml.safe_dump(pod))
    assert taken.returncode == 0, taken.stderr

    del spec["containers"][0]["securityContext"]["capabilities"]
    refused = cluster.kubectl(*DRY_RUN, stdin=yaml.safe_dump(pod))
    assert 'violates PodSecurity "restricted:latest": unrestricted capabilities' in refused.stderr


def test_a_release_is_installed_upgraded_and_rolled_back(cluster: Cluster) -> None:
    """No upgrade changes what cannot be changed, such as the selector of a Deployment."""
    where = ("--namespace", NAMESPACE)
    chart = manifests.CHART
    for step in (
        ("install", "one", chart, "--values", chart / "values-sentinel.yaml"),
        *(
            ("upgrade", "one", chart, "--history-max", "0", "--values", chart / f"values-{name}.yaml")
            for name in manifests.overlays()
        ),
        ("rollback", "one", "1"),
    ):
        done = cluster.helm(*step, *where)
        assert done.returncode == 0, done.stderr
    deployment = cluster.get("deployment", "one-a2a-grpc", *where)
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert cluster.helm("uninstall", "one", *where).returncode == 0
    assert cluster.get("deployments,services,networkpolicies,poddisruptionbudgets", *where)["items"] == []


def test_an_autoscaler_begins_with_the_pods_that_are_there(cluster: Cluster) -> None:
    """A Deployment from which `replicas` is taken away has one: everything would be on one pod for a while."""
    where = ("--namespace", NAMESPACE)
    chart = manifests.CHART

    def pods_after(step: str, *arguments: str) -> int:
        done = cluster.helm(step, "two", *where, *arguments)
        assert done.returncode == 0, done.stderr
        return int(cluster.get("deployment", "two-a2a-grpc", *where)["spec"]["replicas"])

    scaled = (str(chart), "--values", str(chart / "values-hpa.yaml"))
    assert (
        pods_after("install", str(chart), "--values", str(chart / "values-sentinel.yaml"), "--set", "replicas=5") == 5
    )
    assert pods_after("upgrade", *scaled) == 5
    # As the autoscaler does.
    assert cluster.kubectl("scale", "deployment", "two-a2a-grpc", "--replicas=7", *where).returncode == 0
    assert pods_after("upgrade", *scaled, "--set", "settings.A2A_LOG_LEVEL=debug") == 7
    assert pods_after("upgrade", *scaled) == 7
    assert cluster.helm("uninstall", "two", *where).returncode == 0


def test_what_is_wrong_is_refused(cluster: Cluster) -> None:
    """The server of these tests looks, and does not only nod."""
    rendered = manifests.rendered("gateway")
    route = rendered["GRPCRoute", "a2a-grpc"]
    for wrong, says in (
        (route.replace("port: 50051", "prot: 50051"), "prot"),
        (route.replace("- grpc.agent.example.com", "- not/a.host"), "spec.hostnames[0]"),
        (route.replace("          port: 50051\n", ""), "Must have port for Service reference"),
        (rendered["Service", "a2a-grpc"].replace("port: 50051", "port: 0"), "spec.ports[0].port"),
    ):
        refused = cluster.kubectl(*DRY_RUN, stdin=wrong)
        assert refused.returncode != 0
        assert says in refused.stderr
