"""A check that was in force holds until the session ends, whatever becomes of its file."""

from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import msgspec
import pytest
import trio
from hilum import Profile
from hilum.events import CallDone, Compacted, PluginEvent
from hilum.store import MemoryStore
from hilum.testing import Bench, ScriptedModel, open_bench, say, use
from hilum_checks import compile_lines
from hilum_rules import held_checks
from hilum_rules.held_checks import HeldChecks
from hilum_rules.rule import Rule, RulesFile, RuleType

from tests.plugins.rules.test_signed_rules import signed_files

RULES = "# House\n\n- Never edit files in `gen/`.\n- Use tabs.\n"
LOOSE = {"guard.sandbox": "off", "guard.unsandboxed": "run"}
WRITE = ("write_file", {"path": "gen/x.py", "content": "x"})
PLUGINS = (hilum_guard, hilum_files, hilum_shell, hilum_rules)


async def call(kit: Bench, tool: str, arguments: dict[str, Any], agent: str = "main") -> str:
    """Let an agent make one call; gives the result."""
    assert isinstance(kit.model, ScriptedModel)
    seen = len(kit.events)
    kit.model.next(use(tool, **arguments), say("Done."))
    await kit.run("Go.", agent=agent)
    return next(event.result.text for event in kit.events[seen:] if isinstance(event, CallDone))


async def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@e"]
    await trio.run_process(["git", *who, *words], cwd=root, capture_stdout=True)


async def make_branches(root: Path) -> None:
    """A repository with the branch ``bare``, which lacks the rules."""
    (root / ".gitignore").write_text("/.hilum-*\n")
    await git(root, "init", "-q", "-b", "main")
    await git(root, "add", "-A")
    await git(root, "commit", "-qm", "x")
    await git(root, "switch", "-q", "-c", "bare")
    await git(root, "rm", "-q", "AGENTS.md")
    await git(root, "commit", "-qm", "y")
    await git(root, "switch", "-q", "main")


@pytest.mark.parametrize(
    "command",
    [
        "git switch -q bare",
        "git checkout -q --detach; git reset -q --hard bare",
        "git read-tree -u --reset bare",
        "python3 -c \"import os;[os.remove(f) for f in os.listdir('.') if f.startswith('AG')]\"",
        "perl -e 'unlink glob(\"A*\")'",
    ],
)
async def test_no_program_lifts_a_check(command: str) -> None:
    files = {"AGENTS.md": RULES, "gen/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, settings=LOOSE) as kit:
        root = kit.session.workspace.root
        await make_branches(root)
        await call(kit, "run_terminal_cmd", {"command": command})
        path = root / "AGENTS.md"
        assert not path.exists() or not path.read_text()
        text = await call(kit, *WRITE)
        assert "“Never edit files in `gen/`.” (no longer in AGENTS.md, but enforced" in text
        assert not (root / "gen/x.py").exists()
        (told,) = (event for event in kit.of(PluginEvent) if event.name == "rules.held")
        assert told.data["say"] == (
            "An enforced rule is no longer in AGENTS.md. It stays in force until this session ends,"
            " or until you enter /reload-rules."
        )


async def test_signed_checks_hold_without_their_lock_and_their_sentence(tmp_path: Path) -> None:
    """Also in a sub-agent, and after a compaction."""
    async with open_bench(
        *PLUGINS,
        files=signed_files(tmp_path),
        model=ScriptedModel(window=24_000),
        settings=LOOSE,
    ) as kit:
        root = kit.session.workspace.root
        kit.session.add_agent(Profile("helper", "You help."), parent="main")
        signed = ("write_file", {"path": "sdk/new.ts", "content": "x"})
        assert "AGENTS.md:3" in await call(kit, *signed)
        (root / ".hilum/rules.lock").unlink()
        assert "no longer in AGENTS.md" in await call(kit, *signed)
        (root / "AGENTS.md").write_text("- Be nice.\n")
        assert "no longer in AGENTS.md" in await call(kit, *signed, agent="helper")
        while not kit.of(Compacted):
            await call(kit, "read_file", {"path": "long.md"})
        assert "no longer in AGENTS.md" in await call(kit, *signed)
        assert not (root / "sdk/new.ts").exists()


async def test_a_resumed_session_holds_them_until_the_user_lifts_them(tmp_path: Path) -> None:
    store = MemoryStore()
    given: dict[str, Any] = {"folder": tmp_path, "store": store, "settings": LOOSE}
    files = {"AGENTS.md": RULES, "gen/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, **given) as kit:
        session = kit.session.id
        (kit.session.workspace.root / "AGENTS.md").unlink()
        assert "no longer in" in await call(kit, *WRITE)
    async with open_bench(*PLUGINS, resume=session, **given) as kit:
        assert "no longer in AGENTS.md" in await call(kit, *WRITE)
        # A model writes the prompts of sub-agents.
        kit.session.add_agent(Profile("helper", "You help."), parent="main")
        assert isinstance(kit.model, ScriptedModel)
        kit.model.next(say("Done."))
        await kit.run("/reload-rules", agent="helper")
        assert "no longer in AGENTS.md" in await call(kit, *WRITE)
        reply = (await kit.run("/reload-rules")).text
        assert reply == (
            "Read again: 0 rules, 0 of them enforced.\nNo longer enforced, because no file contains"
            " it:\n  AGENTS.md: Never edit files in `gen/`."
        )
        assert "The rule" not in await call(kit, *WRITE)
    async with open_bench(*PLUGINS, resume=session, **given) as kit:
        assert "The rule" not in await call(kit, *WRITE)


@pytest.mark.parametrize("nested", [False, True])
async def test_a_change_while_no_session_runs_lifts_nothing(nested: bool, tmp_path: Path) -> None:
    """The user is told in one line, and can lift the checks."""
    store = MemoryStore()
    given: dict[str, Any] = {"folder": tmp_path, "store": store, "settings": LOOSE}
    name = "sub/AGENTS.md" if nested else "AGENTS.md"
    write = ("write_file", {"path": "sub/gen/x.py", "content": "x"})
    async with open_bench(*PLUGINS, files={name: RULES, "sub/gen/a.py": "x\n"}, **given) as kit:
        session = kit.session.id
        root = kit.session.workspace.root
        assert "The rule" in await call(kit, *write)
    async with open_bench(*PLUGINS, resume=session, **given) as kit:
        assert f"({name}:3)" in await call(kit, *write)
        assert not [event for event in kit.of(PluginEvent) if event.name == "rules.held"]
    (root / name).unlink()
    async with open_bench(*PLUGINS, resume=session, **given) as kit:
        assert f"no longer in {name}" in await call(kit, *write)
        (told,) = (event for event in kit.of(PluginEvent) if event.name == "rules.held")
        assert told.data["say"].startswith(f"An enforced rule is no longer in {name}.")
    async with open_bench(*PLUGINS, resume=session, **given) as kit:
        assert f"no longer in {name}" in await call(kit, *write)
        assert "No longer enforced" in (await kit.run("/reload-rules")).text
    async with open_bench(*PLUGINS, resume=session, **given) as kit:
        assert "The rule" not in await call(kit, *write)


async def test_a_resumed_session_without_changes_says_and_logs_nothing(tmp_path: Path) -> None:
    given: dict[str, Any] = {"folder": tmp_path, "store": MemoryStore(), "settings": LOOSE}
    files = {"AGENTS.md": RULES, "gen/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, **given) as kit:
        await call(kit, *WRITE)
        assert [event.name for event in kit.of(PluginEvent)].count("rules.in_force") == 1
    async with open_bench(*PLUGINS, resume=kit.session.id, **given) as kit:
        seen = len(kit.events)
        await call(kit, *WRITE)
        names = [event.name for event in kit.events[seen:] if isinstance(event, PluginEvent)]
        assert not {"rules.in_force", "rules.held"}.intersection(names)


async def test_a_new_session_knows_only_what_is_in_the_files(tmp_path: Path) -> None:
    files = {"AGENTS.md": RULES, "gen/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, folder=tmp_path, settings=LOOSE) as kit:
        (kit.session.workspace.root / "AGENTS.md").unlink()
        assert "no longer in" in await call(kit, *WRITE)
    async with open_bench(*PLUGINS, folder=tmp_path, settings=LOOSE) as kit:
        assert "The rule" not in await call(kit, *WRITE)


EXCLUDING = "- Do not load `AGENTS.md` in main sessions.\n"
LINE = "# X\n\n- Nothing.\n  enforce: deny context AGENTS.md in main, shared, headless\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("GEMINI.md", EXCLUDING),
        ("CLAUDE.md", LINE),
        (".cursorrules", LINE),
    ],
)
async def test_a_rules_file_that_an_agent_writes_excludes_no_other(path: str, text: str) -> None:
    files = {"AGENTS.md": RULES, "gen/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, settings=LOOSE) as kit:
        place = kit.session.workspace.root / path
        # A program, whose arguments do not name the file, may write it without approval.
        place.write_text(text)
        assert "The rule “Never edit files in `gen/`.” (AGENTS.md:3)" in await call(kit, *WRITE)
        assert b"Use tabs." in kit.requests[-1].body


ADDED = (
    "CLAUDE.md",
    ".cursorrules",
    "sub/AGENTS.md",
    ".github/copilot-instructions.md",
    "GEMINI.md",
)


@pytest.mark.parametrize("rules", [RULES, "# House\n\n- Use tabs.\n"])
@pytest.mark.parametrize("path", ADDED)
async def test_an_agent_does_not_add_rules_without_approval(path: str, rules: str) -> None:
    """It could keep the project's rules out of the prompts of later sessions."""
    files = {"AGENTS.md": rules, "sub/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, settings=LOOSE, kind="headless") as kit:
        root = kit.session.workspace.root
        text = await call(kit, "write_file", {"path": path, "content": LINE})
        assert "wants to add rules to the project: it writes" in text
        folder = str(root.joinpath(path).parent.relative_to(root))
        command = f"mkdir -p {folder} && echo x > {path}"
        assert "wants to add rules" in await call(kit, "run_terminal_cmd", {"command": command})
        assert not (root / path).exists()


@pytest.mark.parametrize(
    ("path", "rules"),
    [
        ("AGENTS.md", ""),
        ("sub/notes.md", RULES),
        ("docs/claude.md.txt", RULES),
        (".github/workflows/x.yml", RULES),
    ],
)
async def test_other_files_and_the_first_rules_need_no_approval(path: str, rules: str) -> None:
    files = {"AGENTS.md": rules, "sub/a.py": "x\n"} if rules else {"sub/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, settings=LOOSE, kind="headless") as kit:
        text = await call(kit, "write_file", {"path": path, "content": "- Use tabs.\n"})
        assert "wants to add rules" not in text


async def test_what_is_kept_out_of_the_prompt_is_enforced() -> None:
    """Without its sentences, which the kind of session must not show."""
    files = {"AGENTS.md": RULES, "GEMINI.md": EXCLUDING, "gen/a.py": "x\n"}
    async with open_bench(*PLUGINS, files=files, settings=LOOSE) as kit:
        text = await call(kit, *WRITE)
        assert "The rule “denies writing gen” (AGENTS.md:3) forbids it" in text
        assert not any(b"Never edit" in request.body for request in kit.requests)


def file_with(*lines: str) -> RulesFile:
    rules = tuple(
        Rule("i", RuleType.HARD_CONSTRAINT, "", line, "AGENTS.md", number, check=check)
        for number, line in enumerate(lines, 1)
        if (check := compile_lines([line])[0].check)
    )
    return RulesFile("AGENTS.md", None, "agents", rules=rules)


def test_as_many_are_held_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones, and then every change needs approval."""
    monkeypatch.setattr(held_checks, "MAX_HELD", 2)
    held = HeldChecks()
    held.take([file_with("deny write a", "deny write b")])
    held.take([file_with("deny write c")])
    assert held.is_full
    assert [rule.sentence for rule in held.rules] == ["deny write a", "deny write b"]


@pytest.mark.parametrize(
    "line",
    [
        "deny write a/** except a/b",
        "ask command git push, npm publish",
        "deny command git push to branch main",
        "deny tool web_fetch",
        "deny host *.example.com",
        "deny context MEMORY.md in shared",
        "deny answer /as an ai/i",
        "deny content /x/ in src/** except src/a",
        "require commit-message /^feat: /",
        "require command make test before git commit",
        "require command git status before write src/**",
        "require read a.md before write src/**",
        "require read a.md before command npm publish",
    ],
)
def test_a_check_of_every_kind_outlives_the_process(line: str) -> None:
    held = HeldChecks()
    held.take([file_with(line)])
    held.take([])
    (report,) = held.take_unreported()
    assert not held.take_unreported()
    resumed = HeldChecks()
    data = msgspec.json.decode(msgspec.json.encode({"checks": [report]}))
    assert resumed.restore(data, is_reported=True) == ["AGENTS.md"]
    resumed.take([])
    assert [rule.check for rule in resumed.rules] == [rule.check for rule in held.rules]
    assert not resumed.take_unreported()


@pytest.mark.parametrize("data", [{}, {"checks": 1}, {"checks": [{"kind": "x"}]}])
def test_a_report_of_another_shape_is_ignored(data: dict[str, Any]) -> None:
    held = HeldChecks()
    held.restore(data, is_reported=True)
    held.take([])
    assert held.rules == ()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("deny context MEMORY.md in shared", "Contexts"),
        ("require command make test before git commit", "Preceded"),
    ],
)
def test_checks_in_logs_of_earlier_versions_stay_in_force(line: str, kind: str) -> None:
    held = HeldChecks()
    held.take([file_with(line)])
    held.take([])
    (report,) = held.take_unreported()
    unknown = msgspec.structs.replace(report, kind="FromALaterVersion")
    earlier = msgspec.structs.replace(report, kind=kind)
    resumed = HeldChecks()
    resumed.restore(msgspec.to_builtins({"checks": [unknown, earlier]}), is_reported=True)
    resumed.take([])
    assert [rule.check for rule in resumed.rules] == [rule.check for rule in held.rules]
