"""The dashboard for Grafana.

It is printed as JSON; `make dashboard` puts that into `dashboard.json`.

A row of panels for each question: what do callers see, what do agents do, what waits, how do events travel, and how is
the store. Every panel is one or two queries; what is the same on every replica is taken with max.
"""

import json
import sys
from typing import Any

_WIDTH, _HEIGHT, _HEIGHT_OF_NUMBERS = 8, 8, 4
_PER_ROW = 24 // _WIDTH
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_JOB = 'job=~"$job"'
_CALLS = "rpc_server_call_duration_seconds"
_TURNS = "a2a_turn_duration_seconds"
_EVENTS = "a2a_event_delivery_duration_seconds"
_STORE = "db_client_operation_duration_seconds"

Panel = dict[str, Any]
Query = tuple[str, str]
"""PromQL, and the legend."""


def rate(metric: str, *by: str, where: str = "") -> str:
    """How much it grows in a second, summed over all but the labels `by`."""
    inner = f"rate({metric}{{{_JOB}{where}}}[$__rate_interval])"
    return f"sum by ({', '.join(by)}) ({inner})" if by else f"sum({inner})"


def quantile(share: float, histogram: str, *by: str, where: str = "") -> str:
    """The time that `share` of all stay below."""
    return f"histogram_quantile({share}, {rate(histogram + '_bucket', 'le', *by, where=where)})"


def level(metric: str, *by: str) -> str:
    """A number that every replica tells alike."""
    return f"max by ({', '.join(by)}) ({metric}{{{_JOB}}})" if by else f"max({metric}{{{_JOB}}})"


def total(metric: str, *by: str) -> str:
    """The sum of what each process tells of itself."""
    return f"sum by ({', '.join(by)}) ({metric}{{{_JOB}}})" if by else f"sum({metric}{{{_JOB}}})"


def panel(title: str, about: str, unit: str, *queries: Query, kind: str = "timeseries") -> Panel:
    """One panel; its place is found later."""
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if kind == "timeseries" else {},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(queries)
        ],
    }


_READS = ', rpc_method=~".*/GetTask|.*/ListTasks"'
_BAD = ', rpc_response_status_code=~"INTERNAL|UNKNOWN|DATA_LOSS|UNAVAILABLE"'
_OF_GATEWAYS = f"rate({_CALLS}_count[$__rate_interval]) and on (job, instance, worker) a2a_upstream_ready"

ROWS: dict[str, list[Panel]] = {
    "At a glance": [
        panel("Calls a second", "All bindings.", "reqps", (rate(f"{_CALLS}_count"), ""), kind="stat"),
        panel(
            "Calls that fail in the service",
            "INTERNAL, UNKNOWN, DATA_LOSS and UNAVAILABLE, of all.",
            "percentunit",
            (f"({rate(f'{_CALLS}_count', where=_BAD)} or vector(0)) / {rate(f'{_CALLS}_count')}", ""),
            kind="stat",
        ),
        panel("The oldest turn that waits", "For a replica.", "s", (level("a2a_queue_age_seconds"), ""), kind="stat"),
    ],
    "Callers": [
        panel("Calls by operation", "", "reqps", (rate(f"{_CALLS}_count", "rpc_method"), "{{rpc_method}}")),
        panel(
            "Calls by code",
            "Of gRPC, on every binding.",
            "reqps",
            (rate(f"{_CALLS}_count", "rpc_response_status_code"), "{{rpc_response_status_code}}"),
        ),
        panel("Calls by binding", "", "reqps", (rate(f"{_CALLS}_count", "rpc_system_name"), "{{rpc_system_name}}")),
        panel(
            "Time of reads",
            "GetTask and ListTasks, which wait for no agent.",
            "s",
            (quantile(0.5, _CALLS, where=_READS), "p50"),
            (quantile(0.99, _CALLS, where=_READS), "p99"),
        ),
        panel("Streams open", "", "short", (total("a2a_streams_active", "rpc_system_name"), "{{rpc_system_name}}")),
        panel(
            "Refused",
            "For credentials, and for limits.",
            "reqps",
            (rate("a2a_authentication_failures_total", "error_type"), "credentials: {{error_type}}"),
            (rate("a2a_limit_refusals_total", "a2a_limit"), "limit: {{a2a_limit}}"),
        ),
    ],
    "Agents": [
        panel("Turns by outcome", "", "ops", (rate(f"{_TURNS}_count", "a2a_turn_outcome"), "{{a2a_turn_outcome}}")),
        panel("Time of a turn", "", "s", (quantile(0.5, _TURNS), "p50"), (quantile(0.99, _TURNS), "p99")),
        panel(
            "Places",
            "Turns that run, of those that may.",
            "short",
            (total("a2a_turns_active"), "run"),
            (total("a2a_turns_limit"), "may run"),
        ),
        panel("Tasks by state", "In the store.", "short", (level("a2a_tasks", "a2a_task_state"), "{{a2a_task_state}}")),
        panel(
            "Turns that wait",
            "For a replica, and for how long.",
            "short",
            (level("a2a_queue_depth"), "turns"),
            (level("a2a_queue_age_seconds"), "seconds of the oldest"),
        ),
        panel(
            "Lost and given up",
            "Turns taken from lost replicas, and dead letters.",
            "ops",
            (rate("a2a_turns_recovered_total"), "recovered"),
            (rate("a2a_dead_letters_total", "a2a_dead_letter_kind"), "dead letters: {{a2a_dead_letter_kind}}"),
        ),
    ],
    "Events and webhooks": [
        panel(
            "Time from the log to a stream",
            "local: the turn runs beside its reader; followed: on another replica.",
            "s",
            (quantile(0.5, _EVENTS, "a2a_event_path"), "p50 {{a2a_event_path}}"),
            (quantile(0.99, _EVENTS, "a2a_event_path"), "p99 {{a2a_event_path}}"),
        ),
        panel(
            "Streams that look into the log",
            "For what did not come by itself.",
            "ops",
            (rate("a2a_follower_repairs_total", "a2a_follower_reason"), "{{a2a_follower_reason}}"),
        ),
        panel(
            "The reader furthest behind",
            "Events that wait for it, in each process.",
            "short",
            (level("a2a_follower_lag", "instance"), "{{instance}}"),
        ),
        panel(
            "Webhooks",
            "Attempts by outcome.",
            "ops",
            (rate("a2a_webhook_attempts_total", "a2a_webhook_outcome"), "{{a2a_webhook_outcome}}"),
        ),
        panel(
            "Time of a webhook",
            "Until its answer.",
            "s",
            (quantile(0.5, "a2a_webhook_duration_seconds"), "p50"),
            (quantile(0.99, "a2a_webhook_duration_seconds"), "p99"),
        ),
    ],
    "Gateways and workers": [
        panel(
            "Calls through gateways",
            "By code. Of all gateways: each call is one of the service as well.",
            "reqps",
            (f"sum by (rpc_response_status_code) ({_OF_GATEWAYS})", "{{rpc_response_status_code}}"),
        ),
        panel(
            "Gateways",
            "How many there are, and how many of them reach the service.",
            "short",
            ("count(a2a_upstream_ready)", "gateways"),
            ("sum(a2a_upstream_ready)", "reach the service"),
        ),
        panel(
            "Workers",
            "Those that tell their metrics, and how often one was replaced.",
            "short",
            (total("a2a_worker_up", "instance"), "{{instance}}"),
            (f"sum by (instance) (a2a_worker_replacements_total{{{_JOB}}})", "{{instance}}, replaced"),
        ),
    ],
    "Store": [
        panel("Calls to the store", "", "ops", (rate(f"{_STORE}_count", "db_operation_name"), "{{db_operation_name}}")),
        panel(
            "Time of a call",
            "From where it is sent to its answer.",
            "s",
            (quantile(0.5, _STORE), "p50"),
            (quantile(0.99, _STORE), "p99"),
        ),
        panel(
            "Wait before a call is sent",
            "For a connection, or for a busy process.",
            "s",
            (quantile(0.99, "db_client_connection_wait_time_seconds", "instance"), "p99 {{instance}}"),
        ),
        panel(
            "Calls let in uncounted",
            "Limits that could not be checked, for the store was away.",
            "ops",
            (rate("a2a_limit_unchecked_total"), "calls"),
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    """The whole of it, as Grafana imports it."""
    panels: list[Panel] = []
    top = 0
    for title, row in ROWS.items():
        panels.append({"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}, "panels": []})
        top += 1
        height = _HEIGHT_OF_NUMBERS if all(each["type"] == "stat" for each in row) else _HEIGHT
        for at, each in enumerate(row):
            line, column = divmod(at, _PER_ROW)
            place = {"x": column * _WIDTH, "y": top + line * height, "w": _WIDTH, "h": height}
            panels.append({**each, "gridPos": place})
        top += -(-len(row) // _PER_ROW) * height
    return {
        "uid": "a2a-grpc",
        "title": "a2a-grpc",
        "tags": ["a2a"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "job",
                    "type": "query",
                    "label": "Job",
                    "datasource": _DATASOURCE,
                    "query": {"query": "label_values(a2a_turns_limit, job)", "refId": "job"},
                    "includeAll": True,
                    "multi": True,
                    "refresh": 2,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": [{"id": at, **each} for at, each in enumerate(panels, 1)],
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
    sys.stdout.write("\n")
