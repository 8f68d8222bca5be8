"""How long `a2a-grpc serve` takes until it is ready, with the embedded store and no data yet."""

import tempfile
import time

from bench.processes import service


def measure(rounds: int) -> list[float]:
    """Seconds from the start of the process to a 200 of `/readyz`, sorted."""
    taken = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            with service(None, A2A_DATA_DIR=folder):
                taken.append(time.perf_counter() - begun)
    return sorted(taken)
