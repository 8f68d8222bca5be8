"""A task leaves nothing behind for the garbage collector, whose visits hold everybody up (docs/adr/0008)."""

import gc
from collections import Counter

from a2a_grpc.server.agents import Turn
from tests.engine.nodes import open_node
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until


async def shout(turn: Turn) -> None:
    if turn.text == "ask":
        await turn.require_input("What?")
        return
    await turn.working("on it")
    await turn.artifact("louder", text=turn.text.upper())


async def test_a_task_leaves_no_cycles(server: StoreServer) -> None:
    async with open_node(server.url, shout) as one:
        await one.task("first")
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for at in range(10):
                await one.task(f"hello {at}")
                await one.task("again", (await one.task("ask")).id)
            await wait_until(lambda: one.engine.running == 0, "all turns are over")
            gc.collect()
            left = Counter(type(item).__module__ + "." + type(item).__qualname__ for item in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    assert {name: count for name, count in left.items() if name.startswith("a2a_grpc")} == {}
