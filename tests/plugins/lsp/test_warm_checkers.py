"""Diagnostics after edits from checkers that are already running: the same as without them, sooner."""

import sys
from pathlib import Path

import pytest
import trio
from hilum.events import RoundEnded
from hilum.testing import say, use
from hilum_lint import Lint, edit_checks, lint_runner
from hilum_lint.diagnostics import Diagnostic
from hilum_lint.edits import Edit
from hilum_lint.running import run_checker
from hilum_lint.syntax_worker import SyntaxWorker
from hilum_lint.warm import WarmRunner
from hilum_lsp import LanguageServers

CONFIG = '[tool.ruff]\nlint.select = ["E", "F", "W", "N", "UP"]\n'
# Texts whose diagnostics differ in kind: names, syntax, wide characters, line ends, a mark.
SOURCES = {
    "names.py": "import os\nimport sys\n\n\ndef F():\n    return missing\n",
    "syntax.py": "def f(:\n    pass\n",
    "indented.py": "if True:\nx = 1\n",
    "wide.py": 'x = "\U0001f600\u4e2d", missing\ny = "é", gone\n',
    "windows.py": "import os\r\nx = missing\r\n",
    "marked.py": "\ufeffx = missing\n",
    "quiet.py": "import os  # noqa: F401\n",
    "empty.py": "",
    "old.py": "from typing import List\n\nx: List[int] = []\n",
    "feed.py": "x = 1\n\x0cy = missing\n",
}


async def plan(bench, path: Path):
    """Return the quick checker of a file."""
    runner = bench.session.plugin(Lint).runner
    uses = await runner._plan([path], quick=True)
    (use_,) = uses
    return runner, use_


async def until_ready(bench, runner: WarmRunner, use_) -> None:
    await runner.warm_up(use_)
    pool = bench.session.plugin(LanguageServers).pool
    server = pool.find_checker(use_.checker.name, use_.program, use_.folder)
    with bench.guard():
        while not runner.is_warm(use_):
            await server.changed.wait()


async def test_the_server_of_ruff_finds_what_ruff_finds(put, install, opened, root):
    """With the same places, codes, severities and messages, so that old and new can be compared."""
    put({"pyproject.toml": CONFIG})
    for name, text in SOURCES.items():
        (root / name).write_bytes(text.encode())
    install("ruff")
    async with opened() as bench:
        runner, chosen = await plan(bench, root / "names.py")
        assert chosen.checker.name == "ruff"
        await until_ready(bench, runner._warm, chosen)
        for name, text in SOURCES.items():
            path = root / name
            cold = await run_checker(bench.session, chosen, [path], 30)
            warm = await runner._warm.check(chosen, path, text, 30)
            assert not cold.problem
            assert sorted(warm, key=_order) == sorted(cold.found, key=_order), name


def _order(each: Diagnostic) -> tuple[object, ...]:
    return (each.line, each.column, each.code, each.message)


async def test_a_changed_configuration_counts_at_once(put, install, opened, root):
    """The server's settings are those of its start, so it starts again; meanwhile ruff itself runs."""
    put({"pyproject.toml": CONFIG, "base.toml": 'lint.select = ["W"]\n', "a.py": "import os\n"})
    install("ruff")
    async with opened() as bench:
        runner, chosen = await plan(bench, root / "a.py")
        await until_ready(bench, runner._warm, chosen)

        async def count(text: str) -> int:
            return len(await runner._warm.check(chosen, root / "a.py", text, 30))

        assert await count("import os\n") == 1
        put({"pyproject.toml": '[tool.ruff]\nextend = "base.toml"\n'})
        assert await count("import os\n\nx = 1\n") == 0
        put({"base.toml": 'lint.select = ["F"]\n'})
        assert await count("import os\n\nx = 2\n") == 1


async def test_new_diagnostics_are_told_in_the_round_of_the_edit(put, install, opened, root):
    """Once the server runs; the first edit starts it, and is checked by ruff itself."""
    put({"pyproject.toml": CONFIG, "a.py": "import os\n\n\ndef f():\n    return 1\n"})
    install("ruff")
    async with opened(**{"lint.wait": 1.0}) as bench:
        bench.model.next(
            use("read_file", path="a.py"), edit("return 1", "return one"), *3 * [say("ok")]
        )
        await bench.run("Change it.")
        runner, chosen = await plan(bench, root / "a.py")
        await until_ready(bench, runner._warm, chosen)
        # The second edit is the first one that the server checks.
        bench.model.next(edit("return one", "return 2"), *3 * [say("ok")])
        await bench.run("Change it back.")
        bench.model.next(edit("return 2", "return two"), *3 * [say("ok")])
        run = await bench.run("Change it.")
    first = next(event for event in bench.of(RoundEnded) if event.run == run.run)
    (note,) = first.notes
    assert "a.py:5:12 error F821 Undefined name `two` (ruff)" in note
    assert "1 older one is not listed" in note


async def test_a_clean_edit_takes_one_question(put, install, opened, root, monkeypatch):
    """Only new diagnostics are compared; the checker then has the present text again."""
    put({"pyproject.toml": CONFIG, "a.py": "import os\n\n\ndef f():\n    return 1\n"})
    install("ruff")
    texts: list[str] = []
    check = WarmRunner.check

    async def count_and_check(self, use_, path, text, seconds):
        texts.append(text)
        return await check(self, use_, path, text, seconds)

    async with opened() as bench:
        runner, chosen = await plan(bench, root / "a.py")
        await until_ready(bench, runner._warm, chosen)
        monkeypatch.setattr(WarmRunner, "check", count_and_check)
        diff = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n-import sys\n+import os\n print(os)\n"
        clean, unclean = "import os\nprint(os)\n", "import os\nprint(on)\n"
        found = await runner._compare_warm(chosen, Edit(root / "a.py", [diff]), clean)
        assert (found.new, found.old, texts) == ([], 0, [clean])
        texts.clear()
        diff = diff.replace("(os)", "(on)")
        found = await runner._compare_warm(chosen, Edit(root / "a.py", [diff]), unclean)
        assert [(each.code, each.line) for each in found.new] == [("F401", 1)]
        assert found.old == 1
        assert texts == [unclean, "import sys\nprint(on)\n", unclean]


def edit(old: str, new: str):
    return use("edit_file", path="a.py", old_string=old, new_string=new)


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("way", ["hang", "die", "flood", "slow"])
async def test_without_a_server_that_answers_the_checkers_run_as_before(
    put, install, opened, root, way
):
    """The server of ruff misbehaves, and ruff itself does not."""
    fake = Path(__file__).with_name("fake_server.py")
    put({"pyproject.toml": CONFIG, "a.py": "def f():\n    return 1\n"})
    (root / ".venv/bin").mkdir(parents=True)
    real = Path(sys.executable).with_name("ruff")
    program = root / ".venv/bin/ruff"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = server ]; then exec {sys.executable} -I -S {fake} {way}; fi\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    async with opened() as bench:
        bench.model.next(use("read_file", path="a.py"), say("ok"))
        await bench.run("Read it.")
        for old, new in (("1", "one"), ("one", "two")):
            bench.model.next(edit(f"return {old}", f"return {new}"), *3 * [say("ok")])
            await bench.run("Change it.")
            notes = "\n".join(note for event in bench.of(RoundEnded) for note in event.notes)
            assert f"Undefined name `{new}`" in notes


# --- the syntax check -----------------------------------------------------------------------------


@pytest.fixture
async def worker(opened):
    async with opened() as bench, trio.open_nursery() as nursery:
        worker = SyntaxWorker(bench.session, nursery)
        worker.start()
        with bench.guard():
            while not worker.is_ready:
                await worker.changed.wait()
        yield worker
        nursery.cancel_scope.cancel()


async def test_the_running_syntax_check_finds_what_a_new_one_finds(worker, opened, root):
    """Also in sources that would need all memory or all of the stack."""
    hostile = ["(" * 5_000, "x = " + "-" * 200_000 + "1", "[" * 90 + "]" * 90, "\0", "x = '\\d'"]
    for text in [*SOURCES.values(), *hostile, "x = 1\n" * 20_000]:
        path = root / "a.py"
        path.write_bytes(text.encode())
        async with opened() as bench:
            _, chosen = await plan(bench, path)
            assert chosen.checker.name == "syntax"
            cold = await run_checker(bench.session, chosen, [path], 30)
        if not worker.is_ready:
            worker.start()
            while not worker.is_ready:
                await worker.changed.wait()
        warm = await worker.check(path, text, 30)
        if warm is None:
            # The source ends the process, which a new process reports.
            assert cold.problem
            continue
        assert [(each.line, each.column, each.severity, each.message) for each in warm] == [
            (each.line, each.column, each.severity, each.message) for each in cold.found
        ]


async def test_a_check_that_takes_too_long_leaves_no_answer_for_the_next_one(worker, root):
    text = "x = 1\n" * 400_000
    assert await worker.check(root / "a.py", text, 0.001) is None
    assert not worker.is_ready
    assert await worker.check(root / "a.py", "x = (\n", 5) is None


# --- servers that are still starting --------------------------------------------------------------

TYPED = '[tool.ty]\n[tool.ruff]\nlint.select = ["F"]\n'


def read_notes(bench) -> str:
    return "\n".join(note for event in bench.of(RoundEnded) for note in event.notes)


@pytest.mark.parametrize("edits", [1, 2])
async def test_the_first_edits_are_checked_by_a_server_that_was_still_starting(
    put, install, opened, edits
):
    """They are compared with the text before the first edit, and each finding is told once."""
    put({"pyproject.toml": TYPED, "a.py": "def f():\n    return missing\n"})
    install("ruff", "ty")
    changes = [edit("return missing", 'return "a" + 1')]
    if edits == 2:
        changes = [
            edit("return missing", "return 1 + other"),
            edit("return 1 + other", 'return "a" + 1'),
        ]
    async with opened() as bench:
        bench.model.next(use("read_file", path="a.py"), *changes, *5 * [say("ok")])
        await bench.run("Change it.")
        told = read_notes(bench) + "".join(map(str, bench.model.requests))
    assert "unsupported-operator" in told
    assert read_notes(bench).count("(ty)") <= 1


async def test_the_checker_runs_if_its_server_does_not_start(put, opened, root, monkeypatch):
    """Also if the run would end."""
    monkeypatch.setattr(lint_runner, "START_TIMEOUT", 0.1)
    monkeypatch.setattr(lint_runner, "QUICK_TIMEOUT", 20)
    monkeypatch.setattr(edit_checks, "EDIT_CHECK_TIMEOUT", 30)
    fake = Path(__file__).with_name("fake_server.py")
    real = Path(sys.executable).with_name("ty")
    put({"pyproject.toml": TYPED, "a.py": "def f():\n    return 1\n"})
    program = root / ".venv/bin/ty"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = server ]; then exec {sys.executable} -I -S {fake} mute; fi\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    async with opened() as bench:
        bench.model.next(
            use("read_file", path="a.py"), edit("return 1", 'return "a" + 1'), *3 * [say("ok")]
        )
        await bench.run("Change it.")
        assert "unsupported-operator" in "".join(map(str, bench.model.requests))
