"""Files that must have been read before others are written, or a command is run."""

from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum.testing import Bench, open_bench

RULES = """\
- Read the style guide before you touch the sources.
  enforce: require read docs/style.md before write src/**

- Read the notes before a release.
  enforce: require read docs/notes.md before command npm publish

- Read the old guide.
  enforce: require read docs/gone.md before write **
"""
FILES = {
    "AGENTS.md": RULES,
    "docs/style.md": "Be brief.\n",
    "docs/notes.md": "Careful.\n",
    "docs/other.md": "Nothing.\n",
    "src/a.py": "A = 1\n",
    "package.json": "{}",
}


def open_house(**settings: Any) -> Any:
    return open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files=FILES,
        settings={"guard.unsandboxed": "run", **settings},
        approve="auto",
    )


async def edit(kit: Bench) -> Any:
    return await kit.call("write_file", path="src/b.py", content="B = 1\n")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "docs/style.md"}),
        ("read_file", {"path": "./docs/../docs/style.md"}),
        ("run_terminal_cmd", {"command": "cat docs/style.md"}),
    ],
)
async def test_a_write_waits_until_the_file_was_read(tool: str, arguments: dict[str, str]) -> None:
    async with open_house() as kit:
        refused = await edit(kit)
        assert refused.code == "E_DENIED"
        assert "Read the style guide before you touch the sources." in refused.text
        assert "Read that file first; then this call is allowed." in refused.text
        assert not (await kit.call(tool, **arguments)).code
        assert not (await edit(kit)).code


async def test_other_files_and_reads_that_fail_count_for_nothing() -> None:
    async with open_house() as kit:
        assert not (await kit.call("read_file", path="docs/other.md")).code
        assert not (await kit.call("write_file", path="docs/new.md", content="x")).code
        # The command does not succeed.
        await kit.call("run_terminal_cmd", command="cat docs/style.md && false")
        assert (await edit(kit)).code == "E_DENIED"


@pytest.mark.parametrize(
    "command",
    [
        "wc -l docs/style.md",
        "cp docs/style.md /tmp/copy.md",
        "grep -q brief docs/style.md || true",
        "grep -c . docs/style.md",
        "md5sum docs/style.md && stat docs/style.md",
    ],
)
async def test_a_command_that_shows_nothing_of_a_file_is_no_reading(command: str) -> None:
    async with open_house() as kit:
        assert not (await kit.call("run_terminal_cmd", command=command)).code
        assert (await edit(kit)).code == "E_DENIED"
        assert not (await kit.call("run_terminal_cmd", command=f"{command}; head docs/*.md")).code
        assert not (await edit(kit)).code


async def test_a_command_waits_and_commands_that_write_wait_too() -> None:
    async with open_house() as kit:
        for command in ("npm publish ./none", "sed -i s/1/2/ src/a.py", "echo x > src/c.py"):
            refused = await kit.call("run_terminal_cmd", command=command)
            assert refused.code == "E_DENIED", command
            assert "Read that file first" in refused.text
        await kit.call("read_file", path="docs/notes.md")
        assert (await kit.call("run_terminal_cmd", command="npm publish ./none")).code != "E_DENIED"
