"""Values for the chart that between them reach everything in it."""

from typing import Final

from tests.deploy.manifests import Manifest

GATEWAY: Final[Manifest] = {"parentRefs": [{"name": "public", "namespace": "gateways"}]}
"""One with one listener, for both routes."""

MATRIX: Final[dict[str, Manifest]] = {
    "defaults": {},
    "one replica": {"replicas": 1},
    "an agent": {"agent": "my_agents.front:agent", "extraArgs": ["--register", "http://registry:8080"]},
    "a file of agents": {"agents": {"file": {"agents": {"acme": "a:b"}}, "files": {"keys.json": '{"keys": []}'}}},
    "agents of somebody else": {"agents": {"existingConfigMap": "agents"}},
    "a store without a password": {"redis": {"existingSecret": {"name": ""}, "url": "redis://redis:6379/0"}},
    "TLS": {"tls": {"existingSecret": "tls"}, "gateway": {"backendTls": {"caConfigMap": "ca"}}},
    "TLS behind a gateway": {
        "tls": {"existingSecret": "tls"},
        "gateway": {
            "enabled": True,
            "grpc": GATEWAY | {"hostnames": ["grpc.example.com"]},
            "http": GATEWAY | {"hostnames": ["example.com"], "requestTimeout": ""},
            "backendTls": {"caConfigMap": "ca"},
        },
    },
    "agents in a Secret": {"agents": {"existingSecret": "agents"}},
    "IPv6": {"listen": "[::]", "publicGrpcAddr": "[2001:db8::1]:443"},
    "alerts and a dashboard": {
        "metrics": {
            "monitor": "ServiceMonitor",
            "rules": {"enabled": True, "labels": {"release": "monitoring"}},
            "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Agents"}},
        }
    },
    "any host": {
        "ingress": {"enabled": True, "grpc": {"host": "*.grpc.example.com"}, "http": {"host": "*.example.com"}},
        "publicGrpcAddr": "a.grpc.example.com:443",
        "publicHttpUrl": "https://a.example.com",
    },
    "ServiceMonitor": {"metrics": {"monitor": "ServiceMonitor", "monitorLabels": {"release": "prometheus"}}},
    "no metrics": {"metrics": {"enabled": False}},
    "HPA by turns": {"autoscaling": {"enabled": True, "queueAge": None}},
    "HPA by age": {
        "autoscaling": {"enabled": True, "turnsPerPod": None, "behavior": {}},
        "metrics": {"monitor": "PodMonitor"},
    },
    "KEDA": {
        "metrics": {"monitor": "ServiceMonitor"},
        "autoscaling": {
            "enabled": True,
            "kind": "keda",
            "keda": {
                "serverAddress": "http://prometheus:9090",
                "authenticationRef": "prometheus",
                "fallback": {"failureThreshold": 3, "replicas": 4},
            },
        },
    },
    "long turns": {"shutdown": {"drainGrace": 300}},
    "registry": {
        "registry": {"enabled": True, "registerHeader": {"existingSecret": "header"}},
        "networkPolicy": {"grpcFrom": [{"podSelector": {}}]},
    },
    "a registry, over TLS and among strangers": {
        "registry": {"enabled": True},
        "tls": {
            "existingSecret": "tls",
            "clientCa": {"existingSecret": "callers"},
            "clientCert": "optional",
            "grpcClientCert": "required",
        },
        "signingKeys": {"existingSecret": "signing", "keys": ["new.pem", "old.pem"]},
        "redis": {"ca": {"existingConfigMap": "redis-ca", "key": "authority.pem"}},
        "service": {"grpc": {"port": 443}, "http": {"port": 80}},
        "ingress": {"enabled": True, "grpc": {"host": "grpc.example.com"}, "http": {"host": "example.com"}},
        "metrics": {"monitor": "PodMonitor"},
        "otlp": {"endpoint": "https://collector.example.com:4317", "to": [{"podSelector": {}}]},
        "networkPolicy": {
            "grpcFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateways"}}}],
            "httpFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        },
    },
    "telemetry": {
        "otlp": {"endpoint": "http://collector:4317", "headers": {"existingSecret": "otlp"}, "samplingRatio": 1},
        "settings": {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test"},
    },
    "load balancer": {
        "service": {"grpc": {"headless": False, "type": "LoadBalancer", "port": 443}, "http": {"type": "LoadBalancer"}}
    },
    "no policy, no budget, no account": {
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False},
    },
    "everything else": {
        "nameOverride": "agent",
        "fullnameOverride": "agent-of-acme",
        "image": {"digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
        "extraEnv": [{"name": "MODEL", "value": "small"}],
        "extraEnvFrom": [{"secretRef": {"name": "model"}}],
        "extraVolumes": [{"name": "data", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "data", "mountPath": "/data"}],
        "initContainers": [{"name": "first", "image": "busybox"}],
        "sidecars": [{"name": "beside", "image": "busybox"}],
        "nodeSelector": {"pool": "agents"},
        "tolerations": [{"key": "agents", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "labels": {"team": "agents"},
        "deploymentAnnotations": {"reloader": "true"},
        "topologySpread": [],
        "networkPolicy": {
            "dnsTo": [{"namespaceSelector": {}}],
            "dnsPorts": [53, 5353],
            "https": {"to": []},
            "extraEgress": [{"ports": [{"port": 8443}]}],
            "extraIngress": [{"ports": [{"port": 9000}]}],
        },
    },
}
