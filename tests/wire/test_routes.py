"""HTTP routes: templates, matching on the undecoded path, and that no path means two things."""

import itertools

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import rules
from a2a_grpc.wire.errors import InvalidArgumentError, MethodNotAllowedError, RouteNotFoundError

# The schema's annotations; POST of :subscribe is section 5.3. Written down by hand.
EXPECTED = {
    ("SendMessage", "POST", "/message:send"),
    ("SendStreamingMessage", "POST", "/message:stream"),
    ("GetTask", "GET", "/tasks/{id}"),
    ("ListTasks", "GET", "/tasks"),
    ("CancelTask", "POST", "/tasks/{id}:cancel"),
    ("SubscribeToTask", "GET", "/tasks/{id}:subscribe"),
    ("SubscribeToTask", "POST", "/tasks/{id}:subscribe"),
    ("CreateTaskPushNotificationConfig", "POST", "/tasks/{task_id}/pushNotificationConfigs"),
    ("GetTaskPushNotificationConfig", "GET", "/tasks/{task_id}/pushNotificationConfigs/{id}"),
    ("ListTaskPushNotificationConfigs", "GET", "/tasks/{task_id}/pushNotificationConfigs"),
    ("GetExtendedAgentCard", "GET", "/extendedAgentCard"),
    ("DeleteTaskPushNotificationConfig", "DELETE", "/tasks/{task_id}/pushNotificationConfigs/{id}"),
}
NASTY = ["a", "tasks", "message:send", "x:cancel", "x:subscribe", ":", "pushNotificationConfigs", "extendedAgentCard"]


def template(route: rules.Route) -> str:
    return "".join("/" + (s.literal or f"{{{s.field}}}") for s in route.segments) + route.action


def test_the_routes_are_those_of_the_proto_and_post_for_subscribe() -> None:
    with_tenant = {(method, verb, "/{tenant}" + path) for method, verb, path in EXPECTED}
    assert {(r.method, r.verb, template(r)) for r in rules.ROUTES} == EXPECTED | with_tenant
    assert len(rules.ROUTES) == 24
    assert all(r.has_body == (r.verb == "POST") for r in rules.ROUTES)


def test_the_operations_are_those_of_the_service() -> None:
    assert set(rules.OPERATIONS) == {method for method, _, _ in EXPECTED}
    streaming = {name for name, operation in rules.OPERATIONS.items() if operation.streaming}
    assert streaming == {"SendStreamingMessage", "SubscribeToTask"}
    create = rules.OPERATIONS["CreateTaskPushNotificationConfig"]
    assert (create.request, create.response) == (a2a_pb2.TaskPushNotificationConfig,) * 2
    assert rules.OPERATIONS["DeleteTaskPushNotificationConfig"].response.DESCRIPTOR.full_name == "google.protobuf.Empty"


@pytest.mark.parametrize("route", rules.ROUTES, ids=lambda r: f"{r.verb} {template(r)}")
def test_each_route_is_found(route: rules.Route) -> None:
    path = template(route).replace("{tenant}", "acme").replace("{id}", "i-1").replace("{task_id}", "t-1")
    found = rules.match(route.verb, path)
    assert found.method == route.method
    values = {"tenant": "acme", "id": "i-1", "task_id": "t-1"}
    assert found.params == {name: values[name] for name in route.fields}
    assert rules.match(route.verb, path.encode()) == found


def test_no_pair_of_routes_reads_one_path() -> None:
    """Every path that fits two templates in the plain reading is read by one of them at most."""
    shapes = [shape for shapes in rules.A2A.shapes.values() for shape in shapes]
    checked = 0
    for one, other in itertools.combinations(shapes, 2):
        if len(one.segments) != len(other.segments):
            continue
        words = [
            [a.literal or b.literal] if a.literal or b.literal else NASTY
            for a, b in zip(one.segments, other.segments, strict=True)
        ]
        for texts in itertools.product(*words):
            for action in {"", one.action, other.action}:
                path = [*texts[:-1], texts[-1] + action]
                readers = [
                    shape for shape in shapes if len(shape.segments) == len(path) and shape.read(path) is not None
                ]
                assert len(readers) <= 1, path
                checked += 1
    assert checked > 500


@pytest.mark.parametrize(
    ("verb", "path", "method", "params"),
    [
        ("GET", "/tasks/abc:subscribe", "SubscribeToTask", {"id": "abc"}),  # case B063
        ("POST", "/tasks/abc:subscribe", "SubscribeToTask", {"id": "abc"}),
        ("GET", "/acme/tasks/abc:subscribe", "SubscribeToTask", {"tenant": "acme", "id": "abc"}),
        ("POST", "/acme/tasks/abc:subscribe", "SubscribeToTask", {"tenant": "acme", "id": "abc"}),
        ("GET", "/tasks/a%2Fb", "GetTask", {"id": "a/b"}),
        ("GET", "/tasks/a%2fb%2F..", "GetTask", {"id": "a/b/.."}),
        ("GET", "/tasks/a%3Acancel", "GetTask", {"id": "a:cancel"}),
        ("POST", "/tasks/a%3Acancel:cancel", "CancelTask", {"id": "a:cancel"}),
        ("POST", "/tasks/a:cancel:cancel", "CancelTask", {"id": "a:cancel"}),
        ("GET", "/tasks/urn:task:1", "GetTask", {"id": "urn:task:1"}),
        ("GET", "/tasks/%25", "GetTask", {"id": "%"}),
        ("GET", "/tasks/a+b%20c", "GetTask", {"id": "a+b c"}),
        ("GET", "/tasks/%C3%A9", "GetTask", {"id": "é"}),
        ("GET", "/tasks/é", "GetTask", {"id": "é"}),
        ("GET", "/tasks/%00", "GetTask", {"id": "\x00"}),
        ("GET", "/tasks/..", "GetTask", {"id": ".."}),
        ("GET", "/tasks/tasks", "GetTask", {"id": "tasks"}),
        ("GET", "/tasks/tasks/pushNotificationConfigs", "ListTaskPushNotificationConfigs", {"task_id": "tasks"}),
        (
            "GET",
            "/tasks/pushNotificationConfigs/pushNotificationConfigs/x:cancel",
            "GetTaskPushNotificationConfig",
            {"task_id": "pushNotificationConfigs", "id": "x:cancel"},
        ),
        ("GET", "/message:send/tasks", "ListTasks", {"tenant": "message:send"}),
        ("GET", "/extendedAgentCard/extendedAgentCard", "GetExtendedAgentCard", {"tenant": "extendedAgentCard"}),
        ("GET", "/a%2Fb/tasks", "ListTasks", {"tenant": "a/b"}),
    ],
)
def test_matching(verb: str, path: str, method: str, params: dict[str, str]) -> None:
    found = rules.match(verb, path)
    assert (found.method, found.params) == (method, params)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "tasks",
        "/tasks/",
        "//tasks",
        "/acme/tasks/",
        "/tasks//pushNotificationConfigs",
        "/tasks/abc/",
        "/tasks/:cancel",
        "/tasks/:subscribe",
        "/message:send/",
        "/message%3Asend",
        "/Tasks",
        "/v1/message:send/x",
        "/acme/acme/tasks",
        "/tasks/a/b",
        "/tasks/tasks/abc",  # `tasks` is no tenant
        "/%74asks/tasks",  # however it is spelled
        "/tasks/message:send/x",
    ],
)
@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_nothing_there(verb: str, path: str) -> None:
    with pytest.raises(RouteNotFoundError):
        rules.match(verb, path)


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("GET", "/message:send", ("POST",)),
        ("PUT", "/tasks/abc", ("GET",)),
        ("POST", "/tasks", ("GET",)),
        ("GET", "/tasks/abc:cancel", ("POST",)),
        ("DELETE", "/tasks/abc:subscribe", ("GET", "POST")),
        ("PATCH", "/t/tasks/abc/pushNotificationConfigs", ("GET", "POST")),
        ("POST", "/tasks/abc/pushNotificationConfigs/x", ("DELETE", "GET")),
        ("get", "/tasks", ("GET",)),  # methods are case-sensitive (RFC 9110, 9.1)
    ],
)
def test_wrong_http_method(verb: str, path: str, allowed: tuple[str, ...]) -> None:
    with pytest.raises(MethodNotAllowedError) as caught:
        rules.match(verb, path)
    assert caught.value.allowed == allowed  # RFC 9110, 15.5.6: a 405 lists what is allowed


@pytest.mark.parametrize("path", ["/tasks/%", "/tasks/%4", "/tasks/%zz", "/tasks/%ff", "/tasks/%C3", b"/tasks/\xff"])
def test_broken_encoding(path: str | bytes) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        rules.match("GET", path)
    assert [v.field for v in caught.value.violations] == ["id"]


def test_an_endless_path_is_not_echoed() -> None:
    with pytest.raises(RouteNotFoundError) as caught:
        rules.match("GET", "/nowhere/" + "x" * 100_000)
    assert len(caught.value.message) < 200
