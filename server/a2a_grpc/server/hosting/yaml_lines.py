"""YAML with the line of everything in it, and without what YAML swallows silently."""

from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yaml.reader import ReaderError

from a2a_grpc.server.agents.yaml_loader import Loader

Where = tuple[str | int, ...]
"""A path into a document: keys and indexes."""


class Document(NamedTuple):
    """What a file holds."""

    value: Any
    lines: dict[Where, int]
    """Where each key, or each entry of a list, begins; of the document itself under ()."""
    problems: list[tuple[Where, str]]
    """Keys that stand there twice, of which YAML would take the last, and keys that are no text."""


def read(path: Path) -> Document:
    """The document in the file. Raises: ValueError that names the file and, where it is no YAML, the line."""
    loader, text = None, ""
    try:
        text = path.read_text(encoding="utf-8")
        loader = Loader(text)
        node = loader.get_single_node()
        document = Document(None, {(): 1}, [])
        if node is None:
            return document
        _walk(loader, node, (), document, [])
        return document._replace(value=loader.construct_document(node))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"{path}{at}: {' '.join(str(error.problem or error.context).split())}") from error
    except (UnicodeDecodeError, ReaderError) as error:
        before = (
            error.object[: error.start] if isinstance(error, UnicodeDecodeError) else text[: error.position].encode()
        )
        line = before.count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: a character stands here that is no text in UTF-8") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise ValueError(f"{path}: it is nested too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()


def _walk(loader: yaml.SafeLoader, node: yaml.Node, where: Where, document: Document, above: list[yaml.Node]) -> None:
    if node in above:
        raise ValueError(f"line {node.start_mark.line + 1}: this holds itself")
    if isinstance(node, yaml.MappingNode):
        _note_keys(node, where, document)
        loader.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str) or key_node.tag != "tag:yaml.org,2002:str":
                shown = key if isinstance(key, str) else "(a list or a mapping)"
                document.lines[*where, shown] = key_node.start_mark.line + 1
                document.problems.append(((*where, shown), "this key must be text; write it in quotes"))
                continue
            document.lines[*where, key] = key_node.start_mark.line + 1
            _walk(loader, value_node, (*where, key), document, [*above, node])
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.lines[*where, index] = item.start_mark.line + 1
            _walk(loader, item, (*where, index), document, [*above, node])


def _note_keys(node: yaml.MappingNode, where: Where, document: Document) -> None:
    seen: dict[str, int] = {}
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
            continue
        line = key_node.start_mark.line + 1
        if key_node.value in seen:
            document.lines.setdefault((*where, key_node.value), line)
            document.problems.append(
                ((*where, key_node.value), f"stands here twice, in line {seen[key_node.value]} too")
            )
        seen[key_node.value] = line
