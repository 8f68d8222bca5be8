"""Several workers on the same ports, and the one process that looks after them and takes no calls itself.

Workers are fresh interpreters that run the same command. The kernel hands each new connection to one of them. A worker
that dies is replaced; a signal is passed on once, and the workers stop by the rules of `drain`. Each has a session of
its own, of which nothing is left when it has ended.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import Final

from a2a_grpc.server.compose.listeners import unavailable
from a2a_grpc.server.compose.metrics import listen_metrics
from a2a_grpc.server.drain import OVERDUE, end_at_once
from a2a_grpc.server.ports import SUPPORTED, reserve
from a2a_grpc.server.settings import Settings
from a2a_grpc.server.settings.values import Address
from a2a_grpc.server.store.embedded import EmbeddedStore
from a2a_grpc.server.telemetry.merging import merged
from a2a_grpc.server.worker import ASSIGNMENT, LISTENING, MEASURE, READY, Assignment, frame, read_frame

log = logging.getLogger("a2a_grpc.server")

_MISCONFIGURED: Final = 2
"""The exit status of a process that has said what to change."""
_TRIES: Final = 5
"""So many times in a row each worker must have failed, while none works, for the supervisor to give up."""
_STEADY: Final = 5.0
"""Seconds that a worker must have lived for its replacement to come at once."""
_DELAYS: Final = (0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before a worker is replaced that failed so many times in a row; the last one repeats."""
_BEYOND: Final = 1.75
"""Seconds after A2A_DRAIN_TIMEOUT at which a worker is killed that could not even end itself."""
_MEASURED_WITHIN: Final = 1.0
"""Seconds that a worker has to tell its metrics."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _GaveUpError(Exception):
    """The workers cannot be started."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Worker:
    """A worker process, from its start to its end."""

    def __init__(self, process: asyncio.subprocess.Process, ours: socket.socket) -> None:
        self.began = time.monotonic()
        self.listening = False
        self.killed = False
        """By the supervisor."""
        self._process = process
        self._socket = ours
        self._writer: asyncio.StreamWriter | None = None
        self._measured: asyncio.Future[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ended(self) -> int:
        """Its exit status: negative where a signal ended it."""
        return await self._process.wait()

    async def clear(self) -> None:
        """End the processes that it has left behind.

        One that was forked still listens on its ports: the kernel would go on giving it connections.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
            # Where this is the first process of a container, they have become its children.
            await asyncio.to_thread(_bury, self.pid)

    async def talk(self, assignment: Assignment, heard: Callable[[bytes], None]) -> None:
        """Tell it what to do, and hear what it says for as long as it lives."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)
        try:
            self._writer.write(frame(ASSIGNMENT, assignment.encoded()))
            while True:
                kind, content = await read_frame(reader)
                if kind == MEASURE:
                    if self._measured is not None:
                        self._measured.set_result(content)
                        self._measured = None
                    continue
                self.listening = self.listening or kind == LISTENING
                heard(kind)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            if self._measured is not None:
                self._measured.cancel()
            self._writer.close()

    async def measure(self) -> bytes | None:
        """Its metrics; None where it does not answer in time."""
        if not self.listening or self._writer is None:
            return None
        # The answer to a question that nobody waits for any more is that to the next one.
        asked = self._measured
        if asked is None:
            asked = self._measured = asyncio.get_running_loop().create_future()
            self._writer.write(frame(MEASURE))
        await asyncio.wait((asked,), timeout=_MEASURED_WITHIN)
        return asked.result() if asked.done() and not asked.cancelled() else None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        self.killed = self.killed or number is signal.SIGKILL
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


class Supervisor:
    """Keeps workers running until a signal. To be run once."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        count: int,
        *,
        replica: str,
        ports: dict[str, int],
        redis_url: str | None,
        measured: bool,
        patience: float,
    ) -> None:
        """`command` makes what starts a worker, with the number of a descriptor.

        `replica`: what the names of the workers begin with. `patience`: the seconds that they have to stop. The rest:
        see `Assignment`.
        """
        self._command = command
        self._replica = replica
        self._ports = ports
        self._redis_url = redis_url
        self._measured = measured
        self._patience = patience
        self._workers: dict[int, _Worker | None] = dict.fromkeys(range(1, count + 1))
        self._failures = dict.fromkeys(self._workers, 0)
        """In a row."""
        self._replaced = dict.fromkeys(self._workers, 0)
        self._listened = asyncio.Event()
        """Some worker has."""
        self._was_ready = False
        """Some worker has been, so that there is nothing wrong with the settings."""
        self._stopping = asyncio.Event()
        self._signal = signal.SIGTERM
        self._statuses: list[int] = []
        """Of the workers that ended after the signal."""

    async def run(self) -> int:
        """Start the workers and see to them until all have ended. Returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup(1)
                loop.add_signal_handler(number, self._on_signal, number)
        keeping = [asyncio.create_task(self._keep(number)) for number in self._workers]
        try:
            await asyncio.gather(*keeping)
        except _GaveUpError as error:
            self._stop(signal.SIGINT)
            await asyncio.gather(*keeping, return_exceptions=True)
            return error.status
        finally:
            self._kill()
        return OVERDUE if OVERDUE in self._statuses else next(filter(None, self._statuses), 0)

    async def metrics(self) -> bytes:
        """The metrics of all workers, by their numbers, and of this process: which workers answer."""
        numbers = [number for number, worker in self._workers.items() if worker is not None]
        told = await asyncio.gather(*(worker.measure() for worker in self._workers.values() if worker is not None))
        found = {str(number): text for number, text in zip(numbers, told, strict=True) if text is not None}
        return merged(found, "worker") + self._about(found.keys()).encode()

    def _about(self, answered: Collection[str]) -> str:
        up = "".join(f'a2a_worker_up{{worker="{n}"}} {int(str(n) in answered)}\n' for n in self._workers)
        again = "".join(f'a2a_worker_replacements_total{{worker="{n}"}} {k}\n' for n, k in self._replaced.items())
        return (
            "# HELP a2a_worker_up Whether the worker tells its metrics.\n# TYPE a2a_worker_up gauge\n"
            f"{up}# HELP a2a_worker_replacements_total Workers that ended and were started again.\n"
            f"# TYPE a2a_worker_replacements_total counter\n{again}"
        )

    async def _keep(self, number: int) -> None:
        if number > 1:
            # What is wrong with the settings or with the agent the first one says; the others would only repeat it.
            await _first(self._listened, self._stopping)
        while not self._stopping.is_set():
            try:
                worker, status = await self._live(number)
            except OSError as error:  # no memory, no more processes, no interpreter any more
                told, status, steady = f"cannot be started: {error}", 1, False
            else:
                if self._stopping.is_set():
                    self._statuses.append(_truth(worker, status))
                    return
                told = f"(process {worker.pid}) {_ended(status)}"
                steady = worker.listening and time.monotonic() - worker.began > _STEADY
            self._failures[number] = failures = 0 if steady else self._failures[number] + 1
            self._give_up_on(status, failures)
            log.error("worker %d %s; another one takes its place", number, told)
            self._replaced[number] += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DELAYS[min(failures, len(_DELAYS) - 1)]):
                    await self._stopping.wait()

    def _give_up_on(self, status: int, failures: int) -> None:
        if not self._was_ready and status == _MISCONFIGURED:
            raise _GaveUpError(status)  # it has said what to change
        alone = not any(worker is not None and worker.listening for worker in self._workers.values())
        all_fail = min(self._failures.values()) >= _TRIES if self._was_ready else failures >= _TRIES
        if alone and all_fail:
            log.error("workers end as soon as they are started, the last one %s; giving up", _ended(status))
            raise _GaveUpError(_shown(status) or 1)

    async def _live(self, number: int) -> tuple[_Worker, int]:
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # A Ctrl-C is for this process, which passes it on.
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        worker = self._workers[number] = _Worker(process, ours)
        log.info("worker %d is process %d", number, process.pid)
        if self._stopping.is_set():
            worker.send(self._signal)
        assignment = Assignment(
            number=number,
            replica=f"{self._replica}-{number}",
            ports=self._ports,
            redis_url=self._redis_url,
            measured=self._measured,
        )
        talking = asyncio.create_task(worker.talk(assignment, self._heard))
        try:
            return worker, await worker.ended()
        finally:
            self._workers[number] = None
            talking.cancel()
            await asyncio.wait((talking,))
            await worker.clear()

    def _heard(self, kind: bytes) -> None:
        self._was_ready = self._was_ready or kind == READY
        if kind == LISTENING:
            self._listened.set()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            # A terminal that goes away sends it, and the shell in it once more.
            if number is not signal.SIGHUP:
                self._kill()
                end_at_once(number)
        else:
            log.info("%s: stopping %d workers; another signal ends them at once", number.name, len(self._workers))
            # Who hangs up waits for nothing, as who presses Ctrl-C.
            self._stop(signal.SIGTERM if number is signal.SIGTERM else signal.SIGINT)

    def _stop(self, number: signal.Signals) -> None:
        self._signal = number
        self._stopping.set()
        for worker in filter(None, self._workers.values()):
            worker.send(number)
        asyncio.get_running_loop().call_later(self._patience, self._kill)

    def _kill(self) -> None:
        for worker in filter(None, self._workers.values()):
            worker.send(signal.SIGKILL)


async def supervise(
    settings: Settings, command: Sequence[str], count: int, ports: Sequence[str], *, stored: bool
) -> int:
    """Serve with `count` workers until a signal. Returns the exit status.

    `command`: the arguments of this program; `ports`: the groups of settings whose listeners the workers share;
    `stored`: they have a store.
    Raises: ValueError, EmbeddedStoreError where the settings are no good.
    """
    if not SUPPORTED:
        raise ValueError("--workers needs sockets that share a port (SO_REUSEPORT), which this system does not have")
    async with AsyncExitStack() as stack:
        shared = stack.enter_context(ExitStack())
        reserved = {group: port for group in ports if (port := _reserved(settings, group, shared)) is not None}
        redis_url = None
        if stored and settings.store.redis_url is None:
            embedded = EmbeddedStore(settings.store.data_dir)
            stack.push_async_callback(embedded.stop)
            redis_url = await embedded.start()
        supervisor: Supervisor | None = None

        async def render() -> bytes:
            return await supervisor.metrics() if supervisor is not None else b""

        supervisor = Supervisor(
            partial(_command, command),
            count,
            replica=settings.process.replica,
            ports=reserved,
            redis_url=redis_url,
            measured=await listen_metrics(settings, stack, render),
            patience=settings.drain.timeout + _BEYOND,
        )
        return await supervisor.run()


def _command(command: Sequence[str], descriptor: int) -> list[str]:
    name, *arguments = command
    # Behind a "--" nothing is an option any more.
    return [sys.executable, "-P", "-m", "a2a_grpc.server", name, "--supervised", str(descriptor), *arguments]


def _bury(group: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def _reserved(settings: Settings, group: str, stack: ExitStack) -> int | None:
    addr: Address | None = getattr(settings, group).addr
    if addr is None:
        return None
    try:
        return reserve(addr, stack)
    except OSError as error:
        raise unavailable(error, f"A2A_{group.upper()}_ADDR") from error


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


def _truth(worker: _Worker, status: int) -> int:
    """What the exit status of a worker says of the stop."""
    if worker.killed or status == -signal.SIGALRM:
        return OVERDUE
    # One that was still being started had nothing to finish.
    return _shown(status) if worker.listening else 0


def _shown(status: int) -> int:
    """As shells have it."""
    return 128 - status if status < 0 else status


def _ended(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
