"""Agent cards in files: YAML or JSON with the field names of the protocol."""

from pathlib import Path

import yaml

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError


def load_card(path: Path) -> a2a_pb2.AgentCard:
    """The card in `path`; interfaces and capabilities that the service decides itself may be left out.

    Raises: ValueError that names the file and what is wrong in it.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML or JSON: {error}") from None
    try:
        return protojson.from_dict(content, a2a_pb2.AgentCard)
    except A2AError as error:
        problems = "; ".join(f"{problem.field}: {problem.description}" for problem in error.violations)
        raise ValueError(f"{path}: not an agent card: {problems or error.message}") from None
