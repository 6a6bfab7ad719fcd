"""Changes of files by servers' tools are journalled like those of commands.

Claims of servers have no effect.
"""

import random
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
from hilum.events import ApprovalAsked, PluginEvent
from hilum.testing import say, use
from hilum_files import Changes
from hilum_mcp.server_config import ServerConfig

from .conftest import Opened, known, plain


def changes(kit) -> Changes:
    found = kit.session.plugin(Changes)
    assert found is not None
    return found


def paths(kit) -> list[list[str]]:
    """Return the paths of each record."""
    return [[change.path for change in record.changes] for record in changes(kit).records()]


async def test_changes_of_a_servers_tool_are_shown_and_undone(servers: Opened) -> None:
    """The diff of the run has a file that a tool wrote, and undoing the call reverts it."""
    async with servers(None, hilum_files, files={"a.txt": "old\n"}) as kit:
        await known(kit)
        kit.model.next(use("plain__write", path=str(kit.workspace / "a.txt")), say("Done."))
        await kit.run("Work.")
        assert (kit.workspace / "a.txt").read_text() != "old\n"
        (record,) = changes(kit).records()
        assert (record.tool, record.what, [change.path for change in record.changes]) == (
            "plain__write", "plain__write", ["a.txt"],
        )  # fmt: skip
        (shown,) = await changes(kit).diff()
        assert shown.path == "a.txt"
        assert "-old" in shown.diff
        await changes(kit).undo("call")
        assert (kit.workspace / "a.txt").read_text() == "old\n"


async def test_a_claim_to_read_only_hides_nothing(servers: Opened) -> None:
    """A tool that claims to read only needs an approval and is journalled like any other."""
    async with servers({"plain": plain("sneaks")}, hilum_files, files={"a.txt": "old\n"}) as kit:
        await known(kit)
        tool = kit.session.tools["plain__sneak"]
        assert (tool.risk, tool.changes_files) == ("network", True)
        await kit.call("plain__sneak", path=str(kit.workspace / "a.txt"))
        assert paths(kit) == [["a.txt"]]


async def test_the_user_can_trust_a_servers_claim(servers: Opened) -> None:
    """Only the tools that claim to read only count as reading tools then."""
    async with servers(
        {"plain": plain("sneaks")}, hilum_files, settings={"mcp.trust_read_only": ["plain"]}
    ) as kit:
        await known(kit)
        found = {name: kit.session.tools[f"plain__{name}"] for name in ("sneak", "write")}
        assert (found["sneak"].risk, found["sneak"].changes_files) == ("read", False)
        assert (found["write"].risk, found["write"].changes_files) == ("network", True)


async def test_edits_before_an_approval_are_not_attributed_to_the_tool(servers: Opened) -> None:
    """Undoing a call keeps the user's edits from the time before its approval."""
    async with servers(None, hilum_files, approve="ask_first", files={"a.txt": "one\n"}) as kit:
        await known(kit)
        kit.model.next(use("plain__write", path=str(kit.workspace / "b.txt")), say("Done."))
        run = await kit.start("Work.")
        asked = await kit.wait_for(ApprovalAsked)
        (kit.workspace / "a.txt").write_text("mine\n")
        changes(kit).commands._snapshot_taken -= 1  # as if the user had taken a second
        kit.session.answer(asked.id, True)
        with kit.guard():
            await run.wait()
        assert paths(kit) == [["b.txt"]]
        assert [event.name for event in kit.of(PluginEvent)].count("files.command") == 1


async def test_any_order_of_commands_and_tools_is_undone(servers: Opened, tmp_path: Path) -> None:
    """Undoing all runs of random tools, commands and edits restores every byte."""
    rng = random.Random(5)
    files = {f"f{n}.txt": f"{n}\n" for n in range(5)}
    async with servers({"plain": plain()}, hilum_files, hilum_shell, files=dict(files)) as kit:
        await known(kit)
        for _ in range(6):
            calls = []
            for _ in range(rng.randrange(1, 5)):
                name = f"f{rng.randrange(8)}.txt"
                kind = rng.choice(["mcp", "command", "write"])
                if kind == "mcp":
                    calls.append(use("plain__write", path=str(kit.workspace / name)))
                elif kind == "command":
                    calls.append(use("run_terminal_cmd", command=f"echo {rng.random()} >> {name}"))
                else:
                    calls.append(
                        use(
                            "write_file",
                            path=f"new{rng.randrange(3)}/{name}",
                            content=f"{rng.random()}\n",
                        )
                    )
            kit.model.next(*calls, say("Done."))
            await kit.run("Work.")
        while changes(kit).records():
            await changes(kit).undo("run")
        left = {
            str(p.relative_to(kit.workspace)): p.read_text()
            for p in kit.workspace.rglob("*")
            if p.is_file()
        }
        assert left == files


@pytest.mark.parametrize(
    ("kind", "url", "local"),
    [
        ("stdio", "", True),
        ("http", "http://localhost:8000/mcp", True),
        ("http", "http://127.0.0.1:8000/mcp", True),
        ("sse", "http://[::1]:8000/sse", True),
        ("http", "https://${HOST}/mcp", True),
        ("http", "https://mcp.example.com/mcp", False),
        ("http", "https://127.0.0.1.example.com/mcp", False),
        ("http", "http://[broken", True),
    ],
)
def test_which_servers_may_change_files_here(kind, url: str, local: bool) -> None:
    """Programs and addresses of this machine may, and so may servers whose address is unknown."""
    assert ServerConfig("x", kind, url=url).is_local is local
