"""YAML that names the line of whatever it cannot read."""

from typing import Any

import yaml
from yaml.constructor import ConstructorError


class Loader(yaml.SafeLoader):
    """The safe loader, whose own constructors fail in many ways at values that are not what their tag says."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node. Raises: ConstructorError."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError):
            kind = node.tag.rpartition(":")[2]
            raise ConstructorError(None, None, f"this is no {kind}; write it in quotes", node.start_mark) from None


def load(text: str | bytes) -> Any:
    """The document in `text`. Raises: yaml.YAMLError; RecursionError for one that is nested too deeply."""
    return yaml.load(text, Loader)  # noqa: S506 -- it is a safe one
