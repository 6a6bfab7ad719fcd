"""The question whether a folder is trusted: what it names, and what each answer does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hilum.trust import TrustedFolders, is_trusted
from hilum_terminal.trust_question import ask_trust, describe, read_contents
from scripted_asker import ScriptedAsker

LOOK = "No, only look around"
WITHOUT = "No, work without them"
TRUST = "Yes, use them"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a plugin, an agent, a skill, servers and instructions."""
    files = {
        ".hilum/plugins/deploy.py": "print('runs')",
        ".claude/agents/tester.md": "---\nname: tester\n---\nTest.",
        ".claude/skills/pdf/SKILL.md": "---\nname: pdf\n---\nRead.",
        ".claude/skills/pdf/read.py": "pass",
        ".mcp.json": '{"mcpServers": {"db": {"command": "db"}}}',
        ".vscode/mcp.json": '{"servers": {}}',
        "AGENTS.md": "- Use tabs.\n",
        "src/main.py": "pass",
    }
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


async def test_an_ordinary_folder_asks_nothing(tmp_path: Path) -> None:
    """Instructions for the model are read with and without trust, so they are no reason to ask."""
    (tmp_path / "AGENTS.md").write_text("- Use tabs.\n")
    (tmp_path / ".hilum").mkdir()
    (tmp_path / ".hilum" / "settings.toml").write_text("turns = 3\n")
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "settings.json").write_text("{}")
    asker = ScriptedAsker()
    assert await ask_trust(asker, tmp_path) is None
    assert (asker.questions, asker.said) == ([], [])


@pytest.mark.parametrize("name", [".mcp.json", ".codex/config.toml", "AGENTS.md"])
def test_a_named_pipe_is_not_read(folder: Path, name: str) -> None:
    """Opening it would block for as long as no program writes to it."""
    path = folder / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    code = (
        f"from hilum_terminal.trust_question import read_contents; read_contents({str(folder)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


async def test_the_question_names_what_could_run_or_instruct(folder: Path) -> None:
    """Each kind with what it can do; no is selected."""
    asker = ScriptedAsker(answers=[LOOK])
    decision = await ask_trust(asker, folder)
    assert decision == "readonly"
    assert asker.said == [
        "This folder contains:",
        "  .hilum/plugins/deploy.py: code that runs inside hilum",
        "  .claude/agents/tester.md: instructions for agents, and the tools that they use",
        "  .claude/skills/pdf/SKILL.md, .claude/skills/pdf/read.py: instructions, and scripts that"
        " the agent may run",
        "  .mcp.json: programs to start as MCP servers; each one also needs your approval",
        "Instructions that are read whether or not you trust the folder: AGENTS.md",
    ]
    assert asker.selected == [LOOK]
    assert ".hilum/plugins/deploy.py" in asker.previews[2]
    assert not is_trusted(folder)


async def test_yes_trusts_the_folder_until_it_changes(folder: Path) -> None:
    """Then the question says what has changed."""
    decision = await ask_trust(ScriptedAsker(answers=[TRUST]), folder)
    assert decision is None
    assert is_trusted(folder)
    quiet = ScriptedAsker()
    assert await ask_trust(quiet, folder) is None
    assert quiet.said == []

    (folder / ".hilum/plugins/deploy.py").write_text("print('something else')")
    (folder / ".claude/agents/tester.md").unlink()
    (folder / ".hilum/plugins/new.py").write_text("")
    asker = ScriptedAsker(answers=[None])
    assert await ask_trust(asker, folder) == "readonly"
    assert asker.questions == ["Do you trust this folder again?"]
    assert asker.said[:4] == [
        "Changed since you trusted this folder:",
        "  gone .claude/agents/tester.md",
        "  changed .hilum/plugins/deploy.py",
        "  new .hilum/plugins/new.py",
    ]


async def test_working_without_the_extensions_is_remembered(folder: Path) -> None:
    """Until they change; looking around is not."""
    await ask_trust(ScriptedAsker(answers=[LOOK]), folder)
    decision = await ask_trust(ScriptedAsker(answers=[WITHOUT]), folder)
    assert decision is None
    quiet = ScriptedAsker()
    assert await ask_trust(quiet, folder) is None
    assert quiet.said == [
        "The extensions of this folder are off (5 files). `/trust` turns them on."
    ]
    (folder / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "rm"}}}')
    asker = ScriptedAsker(answers=[WITHOUT])
    await ask_trust(asker, folder)
    assert asker.questions == ["Do you trust this folder?"]


async def test_a_change_while_the_user_decides_is_asked_again(folder: Path) -> None:
    """What was not shown is not trusted."""

    def change_and_answer() -> str:
        (folder / ".hilum/plugins/late.py").write_text("import os")
        return TRUST

    asker = ScriptedAsker(answers=[change_and_answer, LOOK])
    decision = await ask_trust(asker, folder)
    assert decision == "readonly"
    assert "The folder changed while you were deciding." in asker.said
    assert any("late.py" in line for line in asker.said)
    assert not is_trusted(folder)


async def test_a_folder_that_cannot_be_trusted_offers_no_yes(folder: Path) -> None:
    """A link out of the project could become anything."""
    (folder / ".hilum/plugins/outside.py").symlink_to("/etc/hostname")
    asker = ScriptedAsker(answers=[WITHOUT])
    assert await ask_trust(asker, folder) is None
    assert len(asker.offered[0]) == 2
    assert "outside.py cannot be trusted" in asker.text


async def test_an_unreadable_list_of_trusted_folders_trusts_nothing(folder: Path) -> None:
    """And what is wrong with it is said."""
    file = TrustedFolders().file
    file.parent.mkdir(parents=True)
    file.write_text("folders = 3\n")
    asker = ScriptedAsker(answers=[LOOK])
    assert await ask_trust(asker, folder) == "readonly"
    assert not is_trusted(folder)
    assert "trust.toml cannot be read" in asker.text


async def test_names_of_files_cannot_drive_the_terminal_or_forge_lines(folder: Path) -> None:
    """Escapes and line breaks are shown as such, and many names are counted."""
    plugins = folder / ".hilum/plugins"
    (plugins / "a\x1b[2J\nThis folder is safe.py").write_text("")
    (plugins / os.fsdecode(b"\xff.py")).write_text("")
    for number in range(20):
        (plugins / f"p{number:02}.py").write_text("")
    asker = ScriptedAsker(answers=[WITHOUT])
    await ask_trust(asker, folder)
    assert "\x1b" not in asker.text
    assert not any("\n" in line for line in asker.said)
    assert r"a\x1b[2J\nThis folder is safe.py" in asker.text
    assert "and 17 more: code that runs inside hilum" in asker.text
    asker.text.encode()  # no lone surrogates
    quiet = ScriptedAsker()
    await ask_trust(quiet, folder)
    assert quiet.questions == []


def test_a_folder_that_is_a_link_out_of_the_project_is_named(tmp_path: Path) -> None:
    """Its content is not read."""
    (tmp_path / "elsewhere").mkdir()
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude/skills").symlink_to(tmp_path / "elsewhere")
    assert describe(read_contents(project)) == [
        "This folder contains:",
        "  .claude/skills: instructions, and scripts that the agent may run",
    ]
