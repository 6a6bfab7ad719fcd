"""Agents that all count up the lines of one file, for tests and benchmarks of races.

As a program: one process of several.
"""

import re
import sys
from pathlib import Path

import hilum_files
import msgspec
import trio
from hilum import Call, Profile, ToolError
from hilum.errors import E_BUSY, E_STALE
from hilum.events import CallDone
from hilum.messages import Text, ToolResult
from hilum.testing import Bench, open_bench

LINE = re.compile(r"^(\d+) \| (\w+) = (\d+)$", re.MULTILINE)


def start(path: Path, names: list[str], lines: int = 200) -> None:
    """Write the file: a line for each agent, a common one, and many more, so that a torn read would
    show.
    """
    path.write_text("".join(f"{name} = 0\n" for name in ["all", *names]) + "end = 0\n" * lines)


async def count(bench: Bench, name: str, times: int, lines: int = 200) -> int:
    """Add one to the agent's own line and to the common one, as a model would: read, edit, and
    again when refused.

    Returns:
        How often the edit was refused because another was faster.
    """
    refused = 0
    for number in range(times):
        while True:
            seen = {
                line: int(value)
                for _, line, value in LINE.findall(await _use(bench, name, "read_file"))
            }
            assert seen[name] == number, "an update was lost"
            assert len(seen) > 2
            try:
                await _use(bench, name, "write_file", content=_next(seen, name, lines))
                break
            except ToolError as error:
                if error.code not in (E_STALE, E_BUSY):
                    raise
                refused += 1
    return refused


def _next(seen: dict[str, int], name: str, lines: int) -> str:
    new = {line: value + (line in (name, "all")) for line, value in seen.items() if line != "end"}
    return "".join(f"{line} = {value}\n" for line, value in new.items()) + "end = 0\n" * lines


async def _use(bench: Bench, name: str, which: str, **arguments: str) -> str:
    session, agent = bench.session, bench.session.agents[name]
    tool = session.tools[which]
    checked = tool.check(msgspec.json.encode({"path": "count.txt", **arguments}).decode())
    call = Call(
        which,
        which,
        checked,
        agent,
        session,
        session.workspace,
        session.processes,
        trio.current_time() + 60,
        print,
    )
    if which == "read_file":
        output = await tool.run(call)
        assert output.text.count("\n") > 200, f"a torn read: {output.text[-200:]}"
        result = ToolResult(which, which, (Text("", "tool"),), "", dict(output.data))
        session.journal.append([CallDone(seq=session.journal.last + 1, agent=name, result=result)])
        return output.text
    (lock,) = session._calls_in_flight.locks.of(["count.txt"])
    async with lock:  # as the kernel does it for calls that write one path
        return (await tool.run(call)).text


async def agents(root: Path, names: list[str], times: int) -> int:
    """Let agents of one session count."""
    async with open_bench(hilum_files, workspace=root) as bench:
        refused = []

        async def one(name: str) -> None:
            refused.append(await count(bench, name, times))

        for name in names:
            bench.session.add_agent(Profile(name))
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(one, name)
        return sum(refused)


if __name__ == "__main__":
    print(trio.run(agents, Path(sys.argv[1]), sys.argv[3:], int(sys.argv[2])))
