"""What the process writes to standard error: one record a line, for people or for machines."""

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO

import orjson

from a2a_grpc.server.calls import access
from a2a_grpc.server.telemetry.facts import known
from a2a_grpc.server.telemetry.tracing import here

# All but the tab and the line feed, and what else some take for the end of a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the time in RFC 3339."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._whose = _whose(worker)

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        own = getattr(record, "fields", None)  # an agent may mean something else by that name
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._whose,
            # What is known of the work in which it is written, then facts of its own (a call, the audit trail).
            **known(),
            **(own if isinstance(own, Mapping) else {}),
        }
        if (trace := here()) is not None:
            fields |= {"trace_id": trace.trace_id, "span_id": trace.span_id, "trace_flags": f"{trace.flags:02x}"}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _json(fields)


class TextFormatter(logging.Formatter):
    """One record a line. What has several, such as a traceback, has the others indented.

    So nothing that is quoted in a message, or that an agent puts into one, can pass for a record of its own.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as text without control characters, which a terminal would obey."""
        return _CONTROL.sub(_escaped, super().format(record)).replace("\n", "\n    ")


class AccessLines:
    """Writes the access log as `handler` would, in a third of the time."""

    def __init__(self, handler: "logging.StreamHandler[TextIO]", *, as_json: bool, worker: int | None = None) -> None:
        self._handler = handler
        self._handlers = [handler]
        self._root = logging.getLogger()
        self._as_json = as_json
        self._whose = _whose(worker)
        self._mark = _mark(worker)
        self._second = 0
        self._prefix = ""
        """The second of the last record as it is written."""

    def __call__(self, ended: access.Record) -> bool:
        """See `access.Sink`. Whoever has the log go elsewhere, or filters it, has the usual way."""
        if self._root.handlers != self._handlers or access.log.handlers or access.log.filters:
            return False
        now = time.time()
        second = int(now)
        if second != self._second:
            at = datetime.fromtimestamp(second, UTC) if self._as_json else datetime.fromtimestamp(second)  # noqa: DTZ006
            self._second, self._prefix = second, f"{at:%Y-%m-%dT%H:%M:%S}" if self._as_json else f"{at:%F %T}"
        milliseconds = f"{int(1000 * (now - second)):03d}"
        if self._as_json:
            record = {
                "time": f"{self._prefix}.{milliseconds}+00:00",
                "level": "info",
                "logger": access.log.name,
                "message": ended.message(),
                **self._whose,
                **ended.fields(),
            }
            if (trace := here()) is not None:
                record |= {"trace_id": trace.trace_id, "span_id": trace.span_id, "trace_flags": f"{trace.flags:02x}"}
            line = _json(record)
        else:
            line = f"{self._prefix},{milliseconds} INFO    {self._mark}{access.log.name}: {ended.message()}"
        self._handler.acquire()
        try:
            self._handler.stream.write(line + "\n")
        except (OSError, ValueError):
            return False  # the handler knows what to do about it
        finally:
            self._handler.release()
        return True


def _json(fields: Mapping[str, object]) -> str:
    try:
        return orjson.dumps(fields).decode()
    except TypeError:  # half a surrogate pair, say: no reason to lose a record
        return json.dumps(fields, default=str)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _whose(worker: int | None) -> Mapping[str, int]:
    return {} if worker is None else {"worker": worker}


def _mark(worker: int | None) -> str:
    return "" if worker is None else f"[{worker}] "


def configure(level: str, form: Literal["text", "json"], worker: int | None = None) -> None:
    """Log what is at least `level` to standard error; `worker` is the number of this process among several."""
    # Nobody is told of these, and to find them out takes a third of the time of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    text = TextFormatter(f"%(asctime)s %(levelname)-7s {_mark(worker)}%(name)s: %(message)s")
    handler.setFormatter(JsonFormatter(worker) if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    access.write_with(AccessLines(handler, as_json=form == "json", worker=worker))
    # Who was refused and who ended what is on record even where only errors are logged.
    logging.getLogger("a2a_grpc.audit").setLevel(logging.INFO)
    if level != "debug":
        # It tells of each request, which an agent that keeps itself registered makes all the time.
        logging.getLogger("httpx").setLevel(logging.WARNING)
