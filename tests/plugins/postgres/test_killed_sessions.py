"""A session that is killed at any instant is resumed by another process, in the middle of a turn."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import trio
from postgres_server import PostgresServer

sys.path.insert(0, str(Path(__file__).parents[2] / "end_to_end"))
import crash_session

TURNS = 21


async def test_killed_session_goes_on_in_another_process(
    postgres: PostgresServer, trials: Callable[[int, int], int]
) -> None:
    """Nothing that was shown is lost, nothing with an effect is repeated, prompts and files are the
    same as those of a session that nobody disturbed.
    """
    dice = random.Random(17)
    with trio.fail_after(3000):
        undisturbed = await crash_session.trial(TURNS, (), postgres.make_database())
        crash_session.judge(undisturbed, undisturbed, TURNS)
        plans = [
            [deed] for deed in dice.sample(crash_session.boundaries(undisturbed), trials(1, 40))
        ]
        plans += crash_session.instants(undisturbed, dice, trials(1, 160))
        seen = await crash_session.judge_all(
            TURNS, undisturbed, plans, make_database=postgres.make_database
        )
    print(dict(seen))
    assert seen["kills"] >= trials(1, 200)
