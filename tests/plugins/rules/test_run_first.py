"""Commands that must have run once before files are written, and rules files that count as read."""

from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
from hilum.testing import open_bench

RULES = """\
- Run `git status` before editing.
- Read `AGENTS.md` first.
- Read `docs/style.md` before editing `src/`.
"""


def open_house() -> Any:
    return open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files={"AGENTS.md": RULES, "docs/style.md": "Be brief.\n", "src/a.py": "A = 1\n"},
        settings={"guard.unsandboxed": "run"},
        approve="auto",
    )


async def test_a_write_waits_until_the_command_has_run_once() -> None:
    async with open_house() as kit:
        await kit.call("run_terminal_cmd", command="git init -q .")
        refused = await kit.call("write_file", path="b.md", content="B\n")
        assert refused.code == "E_DENIED"
        assert "Run `git status` before editing." in refused.text
        assert "then this call is allowed" in refused.text
        assert not (await kit.call("run_terminal_cmd", command="git status")).code
        for name in ("b.md", "c.md"):
            # A write does not make the command necessary again.
            assert not (await kit.call("write_file", path=name, content="B\n")).code


async def test_a_rules_file_in_the_prompt_counts_as_read_and_others_do_not() -> None:
    async with open_house() as kit:
        await kit.call("run_terminal_cmd", command="git init -q . && git status")
        await kit.call("run_terminal_cmd", command="git status")
        assert not (await kit.call("write_file", path="b.md", content="B\n")).code
        refused = await kit.call("write_file", path="src/b.py", content="B = 1\n")
        assert refused.code == "E_DENIED"
        assert "docs/style.md" in refused.text
        await kit.call("read_file", path="docs/style.md")
        assert not (await kit.call("write_file", path="src/b.py", content="B = 1\n")).code
