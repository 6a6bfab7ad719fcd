"""`hilum export`: what it writes is read again with hilum's own readers for each format."""

import json
import os
import subprocess
import sys

import pytest
from hilum.trust import TrustedFolders
from hilum_agents import find_agents, load_definition
from hilum_export.command import main, make_export
from hilum_rules import Mode, load_rules
from hilum_skills import load_skill, validate

AGENT = """---
kind: agent
name: critic
description: "Criticizes: \\"everything\\", and # says so"
version: 1.2.0
model: anthropic/claude-sonnet-4-5
tools: {allow: [read_file, search_files, run_terminal_cmd, web_fetch, gh__list]}
limits: {turns: 7, timeout: 60, token_limit: 5000}
answer: review
permissions: {deny: ["Bash(git push *)"], ask: ["Bash(npm *)"]}
---
Be strict.

'''Quotes''' and "quotes" stay.
"""
PYTHON_RULES = """---
description:
globs: **/*.py,src/**/*.pyi
alwaysApply: false
---
- Use type hints.
- Never edit `generated.py`.
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose rules, skills and agents are in several formats."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    root = tmp_path / "project"
    files = {
        "AGENTS.md": "# Project\n\n- Run the tests.\n",
        ".cursor/rules/python.mdc": PYTHON_RULES,
        ".cursor/rules/always.mdc": "---\nalwaysApply: true\n---\nAlways be brief.\n",
        ".cursor/rules/asked.mdc": "---\ndescription: About databases\n---\nUse Postgres.\n",
        ".cursor/rules/named.mdc": "---\nalwaysApply: false\n---\nOnly by name.\n",
        ".github/instructions/web.instructions.md": (
            "---\napplyTo: 'web/**'\n---\nUse semantic HTML.\n"
        ),
        "GEMINI.md": "Answer in English.\n",
        ".hilum/agents/critic.md": AGENT,
        ".hilum/agents/other.md": (
            "---\nkind: agent\nname: other\ndescription: d\nrunner: {command: [prog]}\n---\n"
        ),
        ".opencode/agents/reader.md": (
            "---\ndescription: Reads\ntools: {write: false, edit: false, bash: false}\n---\nRead.\n"
        ),
        ".hilum/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDFs\n---\nRun it.\n",
        ".hilum/skills/pdf/scripts/read.py": "print('read')\n",
        ".hilum/rules.toml": '[[rule]]\nenforce = "deny write gen/**"\n',
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def export(project, target, *options):
    return main(["--to", target, "-C", str(project), *options])


def list_files(root):
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("target", ["claude", "codex", "agents-md"])
def test_a_dry_run_writes_nothing_and_says_what_would_be_written(project, target, capsys):
    before = list_files(project)
    dry = export(project, target, "--dry-run")
    assert list_files(project) == before
    printed = capsys.readouterr().out
    # A script learns from the trial what the export would return.
    assert dry == export(project, target)
    assert "would be written" in printed or "exists" in printed
    assert "not exported" in printed


def test_agents_of_claude_code_are_read_again(project):
    assert export(project, "claude") == 0
    original = load_definition(project / ".hilum/agents/critic.md")
    written = load_definition(project / ".claude/agents/critic.md")
    assert not written.error
    assert not written.problems
    assert written.kind == "claude"
    assert written.name == original.name
    assert written.description == original.description
    assert written.prompt == original.prompt
    assert written.model == original.model
    assert written.turns == original.turns
    # `Bash` also stands for the tools of background commands.
    assert set(original.tools.allow) <= set(written.tools.allow)
    assert "write_file" not in written.tools.allow
    denied = [each.text for each in written.permissions if each.effect == "deny"]
    assert "deny run_terminal_cmd(git push *)" in denied
    reader = load_definition(project / ".claude/agents/reader.md")
    assert {"write_file", "write", "run_terminal_cmd"} <= set(reader.tools.deny)


def test_what_is_lost_is_said(project, capsys):
    export(project, "claude")
    printed = capsys.readouterr().out
    for sentence in (
        "Note: The answer form is not checked.",
        "Note: The time limit of 60 seconds has no counterpart.",
        "Note: The limit of 5,000 tokens has no counterpart.",
        "Note: hilum asks you before each call of run_terminal_cmd(npm *)",
        "Note: The rules are always active",
        "not exported     .hilum/agents/other.md",
        "not exported     .cursor/rules/named.mdc",
        "not exported     .hilum/rules.toml",
        "not exported     custom commands, permissions, hooks and MCP servers",
    ):
        assert sentence in printed, sentence


def test_a_limit_that_nobody_wrote_is_not_exported(project):
    export(project, "claude")
    assert "maxTurns" not in (project / ".claude/agents/reader.md").read_text()
    assert "maxTurns: " in (project / ".claude/agents/critic.md").read_text()


def test_an_agent_that_may_not_write_may_not_write_notebooks_either(project):
    export(project, "claude")
    denied = (project / ".claude/agents/reader.md").read_text()
    assert "Write, Edit" in denied
    assert "NotebookEdit" in denied


@pytest.mark.parametrize("target", ["claude", "codex"])
def test_a_title_that_is_lost_is_said(project, target, capsys):
    (project / ".github/agents").mkdir(parents=True)
    text = "---\nname: Careful Fixer\ndescription: d\n---\nFix it.\n"
    (project / ".github/agents/fixer.agent.md").write_text(text)
    export(project, target)
    assert "Note: The title 'Careful Fixer' has no counterpart." in capsys.readouterr().out


@pytest.mark.parametrize("target", ["claude", "codex", "agents-md"])
def test_checks_are_not_exported_as_text(project, target, capsys):
    export(project, target, "--force")
    assert "(from .hilum/rules.toml" not in capsys.readouterr().out
    texts = [path.read_text() for path in project.rglob("*.md")]
    assert not any("[[rule]]" in text for text in texts)


def test_agents_of_codex_are_read_again(project, capsys):
    assert export(project, "codex", "--force") == 0
    original = load_definition(project / ".hilum/agents/critic.md")
    written = load_definition(project / ".codex/agents/critic.toml")
    assert not written.error
    assert written.kind == "codex"
    assert written.name == original.name
    assert written.description == original.description
    assert written.prompt == original.prompt
    printed = capsys.readouterr().out
    assert "Codex does not have the model anthropic/claude-sonnet-4-5" in printed
    assert "Codex has no lists of tools" in printed
    # An agent that cannot change anything stays so.
    reader = load_definition(project / ".codex/agents/reader.toml")
    assert reader.fields.get("sandbox_mode") == "read-only"


def test_skills_are_copied_whole_and_stay_valid(project):
    export(project, "claude")
    export(project, "codex", "--force")
    for folder in (".claude/skills/pdf", ".agents/skills/pdf"):
        skill = load_skill(project / folder)
        assert not skill.error
        assert skill.name == "pdf"
        assert skill.resources() == ["scripts/read.py"]
        assert validate(project / folder) == []


def test_rules_of_claude_code_are_read_again(project):
    export(project, "claude")
    for name in ("python", "always", "asked", "web", "GEMINI"):
        assert (project / f".claude/rules/{name}.md").exists(), name
    python = load_rules(project / ".claude/rules/python.md")
    original = load_rules(project / ".cursor/rules/python.mdc")
    assert python.mode is Mode.AUTO
    assert python.globs == original.globs
    assert [rule.content for rule in python.rules] == [rule.content for rule in original.rules]
    assert not python.problems
    assert load_rules(project / ".claude/rules/always.md").mode is Mode.ALWAYS
    # CLAUDE.md imports AGENTS.md, which hilum reads once.
    assert (project / "CLAUDE.md").read_text() == "@AGENTS.md\n"
    assert not (project / ".claude/rules/named.md").exists()


@pytest.mark.parametrize("target", ["codex", "agents-md"])
def test_agents_md_gets_a_section_for_each_file(project, target):
    assert export(project, target) == 1  # it exists
    assert export(project, target, "--force") == 0
    text = (project / "AGENTS.md").read_text()
    assert text.startswith("# Project\n\n- Run the tests.\n")
    contents = [rule.content for rule in load_rules(project / "AGENTS.md").rules]
    for sentence in ("Run the tests.", "Use type hints.", "Always be brief.", "Answer in English."):
        assert any(sentence in content for content in contents), sentence
    assert "apply to `**/*.py`, `src/**/*.pyi`" in text
    # A second export changes nothing, and a changed rule replaces its section.
    assert export(project, target) == 0
    assert (project / "AGENTS.md").read_text() == text
    (project / "GEMINI.md").write_text("Answer in French.\n")
    assert export(project, target, "--force") == 0
    changed = (project / "AGENTS.md").read_text()
    assert "Answer in French." in changed
    assert "Answer in English." not in changed
    assert changed.count("Use type hints.") == 1


def test_rules_that_several_files_have_are_exported_once(project):
    export(project, "claude")
    export(project, "agents-md", "--force")
    assert (project / "AGENTS.md").read_text().count("Use type hints.") == 1


def test_a_file_is_never_replaced_without_asking(project, capsys):
    mine = project / ".claude/agents/critic.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("my own words")
    rules = project / ".claude/rules/GEMINI.md"
    rules.parent.mkdir(parents=True)
    rules.write_text("mine")
    (project / "CLAUDE.md").write_text("Mine, too.\n")
    assert export(project, "claude") == 1
    assert mine.read_text() == "my own words"
    assert rules.read_text() == "mine"
    assert (project / "CLAUDE.md").read_text() == "Mine, too.\n"
    assert "It has other content; --force" in capsys.readouterr().out
    assert export(project, "claude", "--force") == 0
    assert rules.read_text() == "Answer in English.\n"
    assert (project / "CLAUDE.md").read_text() == "@AGENTS.md\n\nMine, too.\n"
    assert export(project, "claude") == 0


def test_nothing_is_written_through_a_link(project, tmp_path, capsys):
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / ".claude").symlink_to(outside)
    assert export(project, "claude", "--force") == 1
    assert not list(outside.iterdir())
    assert "refused" in capsys.readouterr().out


def test_a_pipe_is_neither_read_nor_replaced(tmp_path, capsys):
    os.mkfifo(tmp_path / "AGENTS.md")
    (tmp_path / "CLAUDE.md").write_text("- Use tabs.\n")
    assert main(["-C", str(tmp_path), "--to", "codex", "--force"]) == 1
    assert "refused" in capsys.readouterr().out
    assert not (tmp_path / "AGENTS.md").is_file()


def test_an_export_for_claude_code_adds_nothing_to_the_next_one(tmp_path, capsys):
    (tmp_path / "AGENTS.md").write_text("- Use tabs.\n")
    assert main(["-C", str(tmp_path), "--to", "claude"]) == 0
    assert (tmp_path / "CLAUDE.md").read_text() == "@AGENTS.md\n"
    assert main(["-C", str(tmp_path), "--to", "codex"]) == 0
    assert main(["-C", str(tmp_path), "--to", "codex", "--force"]) == 0
    assert (tmp_path / "AGENTS.md").read_text() == "- Use tabs.\n"


def test_agents_md_never_imports_itself(tmp_path):
    (tmp_path / "AGENTS.md").write_text("- Use tabs.\n")
    (tmp_path / "CLAUDE.md").write_text("@AGENTS.md\n\n- Run `make test`.\n")
    assert main(["-C", str(tmp_path), "--to", "codex", "--force"]) == 0
    text = (tmp_path / "AGENTS.md").read_text()
    assert "- Run `make test`." in text
    assert "@AGENTS.md" not in text


def test_a_link_out_of_the_project_is_not_read(project, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("hidden words")
    (project / ".cursor/rules/link.mdc").symlink_to(secret)
    written = make_export(project, "agents-md")
    assert not any(b"hidden words" in file.data for file in written.files)


def test_a_failed_write_leaves_the_old_file(project, monkeypatch, capsys):
    old = project / ".claude/agents/critic.md"
    old.parent.mkdir(parents=True)
    old.write_text("old")

    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert export(project, "claude", "--force") == 1
    assert old.read_text() == "old"
    assert not [path for path in old.parent.iterdir() if path.name.startswith(".hilum")]
    assert "failed: No space left on device" in capsys.readouterr().out


def test_json_for_programs(project, capsys):
    export(project, "claude", "--json")
    data = json.loads(capsys.readouterr().out)
    by_path = {file["path"]: file for file in data["files"]}
    assert by_path[".claude/agents/critic.md"]["outcome"] == "written"
    assert by_path[".claude/agents/critic.md"]["lost"]
    assert {each["source"] for each in data["not_exported"]} >= {".hilum/agents/other.md"}


def test_exported_agents_do_not_hide_their_originals(project):
    export(project, "claude")
    TrustedFolders().add(project)
    entries = {e.definition.name: e for e in find_agents(project).entries if e.state != "hidden"}
    assert entries["critic"].definition.path == project / ".hilum/agents/critic.md"


def test_the_command_as_it_is_typed(project):
    command = [sys.executable, "-m", "hilum", "export", "--to", "gemini"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 2
    assert "claude" in done.stderr
    command[-1] = "claude"
    done = subprocess.run([*command, "--dry-run"], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0
    assert "would be written" in done.stdout


def test_an_empty_project(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert export(tmp_path, "claude") == 0
    assert "nothing to export" in capsys.readouterr().out
