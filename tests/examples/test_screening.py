"""Two agents, each in a process and on a store of its own: one collects candidates, the other one judges them.

The scores are worked out by hand: seven points for the skills that a post asks for, three for the years.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest

from a2a_grpc.client import A2AClient, Completed, Rejected, RemoteAgent, Result, StatusUpdate, Update
from a2a_grpc.client.results import data_of, text_of
from tests.support.replica import Replica

pytestmark = pytest.mark.wide

RANKING = [
    {"name": "Chen Wei", "score": 10, "missing": []},
    {"name": "Ana Costa", "score": 5.3, "missing": ["grpc", "redis"]},
    {"name": "Ben Okafor", "score": 5.3, "missing": ["python", "redis"]},
    {"name": "Emil Berg", "score": 4.6, "missing": ["python", "grpc"]},
    {"name": "Dina Haddad", "score": 3.8, "missing": ["grpc", "redis"]},
]
SCORES = "Ana Costa: 5.3\nBen Okafor: 5.3\nChen Wei: 10\nDina Haddad: 3.8\nEmil Berg: 4.6\n"
ASK = "Find a candidate for the post of backend developer"
QUICK = {"A2A_LEASE_TTL": "1"}
"""A replica that was killed is missed soon."""


class Agents:
    """The two, and the recruiter as its caller sees it."""

    def __init__(self, recruiter: Replica, judge: Replica, caller: RemoteAgent, before: int) -> None:
        self.recruiter = recruiter
        self.judge = judge
        self.caller = caller
        self._before = before

    async def judged(self) -> int:
        """How many tasks the judge was given since the test began."""
        return await tasks_of(self.judge) - self._before


async def tasks_of(judge: Replica) -> int:
    async with await A2AClient.connect(judge.http_url) as client:
        return (await client.list_tasks()).total_size


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[Replica, Replica]]:
    """The judge, which takes its time, and the recruiter."""
    judge = Replica(agent="examples.screening.judge:agent", redis_url=None, env={**QUICK, "JUDGE_SECONDS": "0.25"})
    recruiter = Replica(
        agent="examples.screening.recruiter:agent", redis_url=None, env={**QUICK, "JUDGE_URL": judge.http_url}
    )
    try:
        for one in (judge, recruiter):
            one.start(wait=False)
        yield judge, recruiter
    finally:
        for one in (judge, recruiter):
            one.close()


@pytest.fixture
async def both(services: tuple[Replica, Replica]) -> AsyncIterator[Agents]:
    judge, recruiter = services
    for one in services:
        if not one.alive:
            one.start(wait=False)
    for one in services:
        await asyncio.to_thread(one.wait_ready)
    async with await RemoteAgent.connect(recruiter.http_url) as caller:
        yield Agents(recruiter, judge, caller, await tasks_of(judge))


def check(result: Update | Result) -> None:
    assert isinstance(result, Completed), result
    ranking, scores = result.artifact("ranking"), result.artifact("scores")
    assert ranking is not None and data_of(ranking.parts) == [RANKING]
    assert scores is not None and text_of(scores.parts) == SCORES
    assert result.said == "Candidate 3, Chen Wei, fits the post best. Ask them to an interview."


def words(updates: list[Update | Result]) -> list[str]:
    return [update.text for update in updates if isinstance(update, StatusUpdate)]


async def test_the_recruiter_passes_on_what_the_judge_says_and_ranks_what_it_made(both: Agents) -> None:
    updates = [update async for update in both.caller.run_stream(ASK)]
    rejected = await both.caller.run("Find a candidate for the post of astronaut")

    names = ("Ana Costa", "Ben Okafor", "Chen Wei", "Dina Haddad", "Emil Berg")
    assert words(updates) == [
        "found 5 candidates",
        *(f"judge: reading about {name}, {at} of 5" for at, name in enumerate(names, start=1)),
        "judge: 5 candidates judged.",
        "Candidate 3, Chen Wei, fits the post best. Ask them to an interview.",
    ]
    check(updates[-1])
    assert isinstance(rejected, Rejected) and rejected.text == "Open posts are: backend developer, data engineer."
    assert await both.judged() == 1


async def until(updates: AsyncIterator[Update | Result], said: str) -> None:
    async for update in updates:
        if isinstance(update, StatusUpdate) and said in update.text:
            return
    raise AssertionError(f"nobody said {said!r}")


async def test_the_judge_is_killed_and_started_again_while_it_judges(both: Agents) -> None:
    """The recruiter waits for it; the judge begins its turn anew, and its task is the same one.

    That a restart in order does the same is shown by the tutorial.
    """
    async with aclosing(both.caller.run_stream(ASK)) as updates:
        await until(updates, "2 of 5")
        both.judge.kill()
        await asyncio.to_thread(both.judge.start)
        check([update async for update in updates][-1])
    assert await both.judged() == 1


async def test_the_recruiter_is_killed_while_the_judge_judges(both: Agents) -> None:
    """Its caller goes on, and so does itself: it sends the same message, and nothing is judged twice."""
    async with aclosing(both.caller.run_stream(ASK)) as updates:
        await until(updates, "2 of 5")
        both.recruiter.kill()
        await asyncio.to_thread(both.recruiter.start)
        check([update async for update in updates][-1])
    assert await both.judged() == 1


@pytest.mark.slow
async def test_a_judge_that_is_away_is_waited_for(both: Agents) -> None:
    both.judge.kill()
    async with aclosing(both.caller.run_stream(ASK)) as updates:
        await until(updates, "The judge is away")
        await asyncio.to_thread(both.judge.start)
        check([update async for update in updates][-1])
    assert await both.judged() == 1
