"""A planner of routes, whose answer is a page of HTML and the same as data: `a2a-grpc serve examples.routes:agent`."""

import heapq
import re
from typing import Final

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(
    name="Route planner",
    description="Plans routes between towns.",
    version="1.0.0",
    output_modes=["text/html", "application/json"],
)

ROADS: Final = {
    ("Sunnyvale", "Mountain View"): 12,
    ("Mountain View", "Palo Alto"): 10,
    ("Palo Alto", "San Mateo"): 22,
    ("San Mateo", "San Francisco"): 25,
    ("Sunnyvale", "San Jose"): 15,
}
"""Minutes between towns, in both directions."""
TOWNS: Final = sorted({town for road in ROADS for town in road})
_TOWN: Final = re.compile("|".join(TOWNS), re.IGNORECASE)
_RUSH: Final = re.compile(r"\bat ([7-9])\s*am\b", re.IGNORECASE)


@agent.skill(
    id="route-planner",
    name="Route planning",
    description="Plans a route between two towns.",
    tags=["maps", "routing", "navigation"],
    examples=["plan my route from Sunnyvale to Mountain View"],
)
async def plan(turn: Turn) -> None:
    said = [part.text for one in turn.history if one.role == turn.message.role for part in one.parts]
    match [found.title() for text in (*said, turn.text) for found in _TOWN.findall(text)]:
        case [start, *_, end]:
            minutes, stops = shortest(start, end)
        case _:
            await turn.require_input(f"From where to where? These towns are known: {', '.join(TOWNS)}.")
            return
    if _RUSH.search(turn.text):
        minutes *= 2
    steps = "".join(f"<li>{stop}</li>" for stop in stops)
    await turn.artifact("route", text=f"<ol>{steps}</ol><p>{minutes} minutes</p>", media_type="text/html")
    await turn.artifact("times", data={"minutes": minutes, "stops": stops})


def shortest(start: str, end: str) -> tuple[int, list[str]]:
    """The minutes of the quickest way, and its towns (Dijkstra)."""
    ways = [(0, [start])]
    seen = set[str]()
    while ways:
        minutes, stops = heapq.heappop(ways)
        if stops[-1] == end:
            return minutes, stops
        seen.add(stops[-1])
        for road, time in ROADS.items():
            if stops[-1] in road:
                other = road[1 - road.index(stops[-1])]
                if other not in seen:
                    heapq.heappush(ways, (minutes + time, [*stops, other]))
    raise ValueError(f"there is no road from {start} to {end}")
