"""The terminals in which hilum runs the commands of guests."""

import json
import shlex
import sys

import pytest
from hilum.errors import E_STOPPED
from hilum.events import CallDone, CallStarted
from hilum_agents.runs import Runs

CREATE = """
params = {params!r}
terminal = client.request("terminal/create", **params)[0]["terminalId"]
client.request("terminal/wait_for_exit", terminalId=terminal)
print(json.dumps(client.request("terminal/output", terminalId=terminal)[0]))
"""


def writing(data):
    """Return the request for a command that writes some bytes."""
    code = f"import sys; sys.stdout.buffer.write({data!r})"
    return {"command": f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"}


async def read_output(guest, params):
    """Run a command in a terminal; return its output and whether it was cut."""
    result = await guest.execute(CREATE.format(params=params))
    found = json.loads(result["text"])
    return found["output"], found["truncated"]


@pytest.mark.parametrize(
    ("limit", "output", "truncated"),
    [(9, "äöü€", False), (8, "öü€", True), (7, "öü€", True), (2, "", True), (0, "", True)],
)
async def test_the_limit_of_the_output_is_in_bytes_and_cuts_no_character(
    open_guest, limit, output, truncated
):
    async with open_guest("bypassing") as guest:
        params = {**writing("äöü€".encode()), "outputByteLimit": limit}
        assert await read_output(guest, params) == (output, truncated)


async def test_an_output_that_ends_within_a_character_is_complete(open_guest):
    async with open_guest("bypassing") as guest:
        output, _ = await read_output(guest, writing(b"end\xe2\x82"))
        assert output == "end\ufffd"


async def test_only_variables_that_change_no_program_are_set(open_guest):
    names = ["TERM", "LC_TELEPHONE", "PATH", "LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "MINE"]
    env = [{"name": name, "value": "set-by-guest"} for name in names]
    async with open_guest("bypassing") as guest:
        output, _ = await read_output(guest, {"command": "env", "env": env})
        found = {line.partition("=")[0] for line in output.splitlines() if "set-by-guest" in line}
        assert found == {"TERM", "LC_TELEPHONE"}


async def test_a_call_that_the_user_stops_ends_the_command(open_guest):
    code = """
terminal = client.request("terminal/create", command="touch begun; sleep 1000")[0]["terminalId"]
print(json.dumps(client.request("terminal/wait_for_exit", terminalId=terminal)[0]))
"""
    async with open_guest("bypassing") as guest:
        job = await guest.start(f"#begin\n{code}")
        started = await guest.bench.wait_for(
            CallStarted, lambda event: event.call.name == "guest_terminal"
        )
        assert guest.bench.session.stop_call(started.call.id, agent=started.agent)
        done = await guest.bench.wait_for(
            CallDone, lambda event: event.result.call_id == started.call.id
        )
        assert done.result.code == E_STOPPED
        with guest.bench.guard():
            await guest.bench.session.plugin(Runs).wait(job)
        assert json.loads(guest.said) == {"exitCode": None, "signal": "SIGTERM"}
