"""`a2a-grpc task download`: the artifacts of a task as files."""

import json
import mimetypes
import re
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from a2a_grpc.client.cli.agent import connected
from a2a_grpc.client.cli.failures import INTERNAL, CommandError
from a2a_grpc.client.cli.invocation import Invocation
from a2a_grpc.client.cli.output import write_json
from a2a_grpc.client.cli.text import TextPrinter
from a2a_grpc.client.results import text_of
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import excerpt

_UNFIT: Final = re.compile(r"[^\w.-]+")
_LONGEST: Final = 100
"""Bytes of a name."""
_EXTENSIONS: Final = {"text/plain": ".txt", "text/markdown": ".md", "application/json": ".json"}


def add(parser: ArgumentParser) -> None:
    """Give a parser the arguments."""
    parser.add_argument("id", metavar="TASK_ID", help="the task")
    parser.add_argument(
        "--directory", type=Path, default=Path(), metavar="DIR", help="where the files go (default: this directory)"
    )
    parser.add_argument("--artifact", metavar="NAME", help="only the artifact with this name or id (default: all)")
    parser.set_defaults(action=download)


async def download(run: Invocation) -> int:
    """Save what a task has made. A file that is there is never written over; what has only a URL is not fetched."""
    args = run.args
    async with connected(run) as client:
        task = await client.get_task(a2a_pb2.GetTaskRequest(id=args.id))
    run.seen.take(task)
    chosen = [one for one in task.artifacts if args.artifact in (None, one.name, one.artifact_id)]
    if args.artifact is not None and not chosen:
        raise CommandError(INTERNAL, f"The task has no artifact {excerpt(args.artifact, 64)}.")
    saved: list[dict[str, str]] = []
    for artifact in chosen:
        for name, content in _files(artifact):
            row = {"artifact": artifact.name or artifact.artifact_id}
            if isinstance(content, str):
                saved.append(row | {"url": content})
            else:
                saved.append(row | {"file": str(_save(args.directory, name, content))})
    _show(run, task, saved)
    return 0


def _files(artifact: a2a_pb2.Artifact) -> Iterator[tuple[str, bytes | str]]:
    """Names and contents; a URL in place of content that is elsewhere. All text of an artifact is one file."""
    base = artifact.name or artifact.artifact_id
    texts = [part for part in artifact.parts if part.HasField("text")]
    if texts:
        yield _named(base, texts[0].media_type or "text/plain"), text_of(texts).encode()
    for part in artifact.parts:
        match part.WhichOneof("content"):
            case "data":
                value = protojson.to_dict(part)["data"]
                yield _named(base, "application/json"), json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
            case "raw":
                yield _fit(part.filename) or _named(base, part.media_type), part.raw
            case "url":
                yield "", part.url


def _named(base: str, media_type: str) -> str:
    kind = media_type.partition(";")[0].strip().lower()
    extension = _EXTENSIONS.get(kind) or mimetypes.guess_extension(kind) or ".bin"
    fit = _fit(base) or "artifact"
    return fit if fit.endswith(extension) else fit + extension


def _fit(name: str) -> str:
    """The name as that of a file in the directory, whatever the agent calls it: no way out, nothing hidden."""
    last = name.replace("\\", "/").rpartition("/")[2]
    fit = _UNFIT.sub("_", last).strip("._-").encode()[-_LONGEST:].decode(errors="ignore")
    return fit.lstrip("._-")


def _save(directory: Path, name: str, content: bytes) -> Path:
    """Write a file that was not there: `name`, or that with a number. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    stem, dot, extension = name.rpartition(".")
    for number in range(1, 10_000):
        numbered = name if number == 1 else f"{stem or name}-{number}{dot}{extension if stem else ''}"
        try:
            with (directory / numbered).open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return directory / numbered
    raise CommandError(INTERNAL, f"There are too many files {name} in {directory}.")


def _show(run: Invocation, task: a2a_pb2.Task, saved: list[dict[str, str]]) -> None:
    if not isinstance(run.printer, TextPrinter):
        write_json({"taskId": task.id, "contextId": task.context_id, "files": saved}, run.out)
        return
    run.printer.ids(task)
    for row in saved:
        run.printer.field("Artifact", row["artifact"])
        if "file" in row:
            run.printer.field("Saved", row["file"])
        else:
            run.printer.field("Not fetched", row["url"])
