"""The committed stubs: what they must be equal to, and who may load them."""

import subprocess
import sys

import pytest

# Each script runs in a process of its own: a descriptor pool is global and cannot be emptied.
OURS = "from a2a_grpc.pb import a2a_pb2 as ours"
THEIRS = "from a2a.types import a2a_pb2 as theirs"
SAME = """
assert ours.Task is theirs.Task
assert ours.DESCRIPTOR.serialized_pb == theirs.DESCRIPTOR.serialized_pb
print(len(ours.DESCRIPTOR.serialized_pb))
"""


def python(*lines: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def last_line(result: subprocess.CompletedProcess[str]) -> str:
    """What went wrong, without the twelve thousand bytes of descriptor in the traceback above it."""
    return result.stderr.splitlines()[-1] if result.stderr else ""


@pytest.mark.parametrize("order", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours first", "a2a-sdk first"])
def test_a2a_sdk_and_our_stubs_share_a_process_in_either_order(order: tuple[str, str]) -> None:
    result = python(*order, SAME)

    assert result.returncode == 0, last_line(result)
    assert result.stdout == "12005\n"


def test_a_different_definition_loaded_first_is_named_in_a_sentence() -> None:
    result = python(
        "import sys, types",
        "from google.protobuf import descriptor_pb2, descriptor_pool",
        "older = descriptor_pb2.FileDescriptorProto(name='a2a.proto', package='lf.a2a.v1', syntax='proto3')",
        "older.message_type.add(name='Task')",
        "descriptor_pool.Default().AddSerializedFile(older.SerializeToString())",
        "sys.modules['other_agent.a2a_pb2'] = types.ModuleType('other_agent.a2a_pb2')",
        "import a2a_grpc.pb.a2a_pb2",
    )

    assert result.returncode == 1
    sentence = last_line(result)
    assert sentence.startswith("ImportError: a2a-grpc cannot load its a2a.proto: ")
    assert "(other_agent.a2a_pb2)" in sentence
    assert "Install that version, or run the two packages in separate processes." in sentence


@pytest.mark.parametrize(
    ("module", "service"),
    [
        ("a2a_grpc.card.v1.card", "a2a_grpc.card.v1.AgentCardService"),
        ("a2a_grpc.admin.v1.admin", "a2a_grpc.admin.v1.AdminService"),
        ("a2a_grpc.registry.v1.registry", "a2a_grpc.registry.v1.RegistryService"),
    ],
)
def test_our_own_services_need_no_a2a_proto(module: str, service: str) -> None:
    result = python(
        "import sys",
        f"import {module}_pb2 as stubs, {module}_pb2_grpc",
        "assert not [name for name in sys.modules if name.endswith('a2a_pb2')]",
        "print(*(service.full_name for service in stubs.DESCRIPTOR.services_by_name.values()))",
    )

    assert result.returncode == 0, last_line(result)
    assert result.stdout == f"{service}\n"
