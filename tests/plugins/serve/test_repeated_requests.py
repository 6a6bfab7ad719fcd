"""Requests that are sent again: carried out once, and remembered within limits."""

import pytest
import trio
import trio.testing
from hilum_serve.problems import Problem
from hilum_serve.repeated_requests import MAX_REMEMBERED, MAX_RESPONSE, RepeatedRequests
from starlette.requests import Request
from starlette.responses import Response


def request(identity):
    headers = [(b"hilum-request", identity.encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/x",
        "headers": headers,
        "query_string": b"",
        "server": ("127.0.0.1", 1),
        "scheme": "http",
    }
    return Request(scope)


class Counter:
    """Counts how often a request is carried out."""

    def __init__(self):
        self.count = 0
        self.gate = None

    async def __call__(self):
        self.count += 1
        if self.gate is not None:
            await self.gate.wait()
        return Response(str(self.count))


async def test_a_repetition_gets_the_first_response():
    repeated = RepeatedRequests()
    carry_out = Counter()
    first = await repeated.answer(request("a" * 8), "eva", {"n": 1}, carry_out)
    again = await repeated.answer(request("a" * 8), "eva", {"n": 1}, carry_out)
    assert (first.body, again.body, carry_out.count) == (b"1", b"1", 1)
    # The ids of users are independent of each other.
    other = await repeated.answer(request("a" * 8), "max", {"n": 1}, carry_out)
    assert other.body == b"2"


async def test_an_id_that_was_used_for_another_content_is_refused():
    repeated = RepeatedRequests()
    carry_out = Counter()
    await repeated.answer(request("a" * 8), "eva", {"n": 1}, carry_out)
    with pytest.raises(Problem, match="another query or body"):
        await repeated.answer(request("a" * 8), "eva", {"n": 2}, carry_out)
    assert carry_out.count == 1


async def test_many_requests_push_out_no_user_and_none_that_is_carried_out():
    repeated = RepeatedRequests()
    slow = Counter()
    slow.gate = trio.Event()
    fast = Counter()
    await repeated.answer(request("a" * 8), "max", 0, fast)
    responses = []

    async def wait():
        responses.append(await repeated.answer(request("s" * 8), "eva", 0, slow))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(2 * MAX_REMEMBERED):
            await repeated.answer(request(f"{number:08}"), "eva", 0, fast)
        slow.gate.set()
    assert slow.count == 1
    assert [response.body for response in responses] == [b"1", b"1"]
    before = fast.count
    await repeated.answer(request("a" * 8), "max", 0, fast)
    assert fast.count == before
    await repeated.answer(request(f"{0:08}"), "eva", 0, fast)
    assert fast.count == before + 1


async def test_a_request_that_fails_may_be_sent_again():
    repeated = RepeatedRequests()
    carry_out = Counter()

    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await repeated.answer(request("a" * 8), "eva", 0, fail)
    assert (await repeated.answer(request("a" * 8), "eva", 0, carry_out)).body == b"1"


async def test_a_large_response_is_not_remembered_but_the_request_is():
    repeated = RepeatedRequests()
    count = 0

    async def carry_out():
        nonlocal count
        count += 1
        return Response("x" * (MAX_RESPONSE + 1))

    first = await repeated.answer(request("a" * 8), "eva", 0, carry_out)
    again = await repeated.answer(request("a" * 8), "eva", 0, carry_out)
    assert (first.status_code, again.status_code, count) == (200, 409, 1)
