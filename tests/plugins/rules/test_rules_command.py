"""``hilum rules`` in a real folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hilum.__main__ import main

Put = Callable[..., None]
FILES = {
    "AGENTS.md": "# House\n\n## 安全准则\n\n- Never edit files in `migrations/`.\n- "
    + "要小心" * 40
    + "\n\n## Style\n\n- Use \x1b[31mtabs\u202e.\n",
    ".cursor/rules/ts.mdc": "---\ndescription: d\nglobs: *.ts\n---\n- Types.\n",
    "CLAUDE.md": "@gone.md\n",
}


@pytest.fixture
def hilum(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run the command; gives what it says."""
    monkeypatch.setenv("HILUM_CONFIG", str(home / "config"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(root)

    def run(*arguments: str, code: int = 0) -> str:
        assert main(["rules", *arguments]) == code
        text = "".join(capsys.readouterr())
        assert "Traceback" not in text
        return text

    return run


def wide(line: str) -> int:
    import unicodedata

    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in line)


def test_every_rule_is_listed_with_its_line_and_why(hilum: Callable[..., str], put: Put) -> None:
    put(FILES)
    text = hilum()
    assert "1. AGENTS.md (the project's)" in text
    assert "  1.1  AGENTS.md:5  enforced" in text
    assert "  1.2  AGENTS.md:6  advice" in text
    assert "3. .cursor/rules/ts.mdc (the project's, for files like *.ts)" in text
    assert "5 rules: 1 enforced, 0 proposed, 4 advice." in text
    assert "CLAUDE.md:1: @gone.md is not imported: there is no such file." in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(wide, text.splitlines())) <= 80


def test_the_rules_of_nested_folders_are_listed(hilum: Callable[..., str], put: Put) -> None:
    """A session reads them when it uses a file there; nobody wants those of dependencies."""
    put(
        {
            "AGENTS.md": "- Never edit files in `migrations/`.\n",
            "web/app/CLAUDE.md": "- Never run `npm publish`.\n",
            "api/.github/copilot-instructions.md": "- Never edit `b.py`.\n",
            "web/node_modules/x/AGENTS.md": "- Never edit `c.py`.\n",
            ".venv/AGENTS.md": "- Never edit `d.py`.\n",
        }
    )
    text = hilum()
    assert "3 rules: 3 enforced, 0 proposed, 0 advice." in text
    assert "  2.1  api/.github/copilot-instructions.md:1  enforced" in text
    assert "  3.1  web/app/CLAUDE.md:1  enforced" in text
    assert "The rules of a nested folder apply when a file in it is first used." in text


def test_the_list_as_data(hilum: Callable[..., str], put: Put) -> None:
    put(FILES)
    data = json.loads(hilum("--json"))
    assert [
        (rule["number"], rule["type"], rule["enforced"], rule["line"]) for rule in data["rules"]
    ] == [
        ("1.1", "hard_constraint", True, 5),
        ("1.2", "hard_constraint", False, 6),
        ("1.3", "soft_guideline", False, 10),
        ("2.1", "soft_guideline", False, 1),
        ("3.1", "soft_guideline", False, 5),
    ]
    assert {problem["path"] for problem in data["problems"]} == {"AGENTS.md", "CLAUDE.md"}
    assert all(rule["why"] for rule in data["rules"])


def test_one_rule_in_full(hilum: Callable[..., str], put: Put) -> None:
    put(FILES)
    text = hilum("show", "1.1")
    assert "Section: House > 安全准则." in text
    assert "hard constraint" in text
    assert json.loads(hilum("show", "3.1", "--json"))["path"] == ".cursor/rules/ts.mdc"
    assert "There is no rule 9.9." in hilum("show", "9.9", code=2)


def test_a_file_is_checked(hilum: Callable[..., str], put: Put) -> None:
    put({**FILES, "good.md": "- Good.\n"})
    assert "1 rule " in hilum("check", "good.md")
    assert "AGENTS.md:10: 2 hidden characters" in hilum("check", "AGENTS.md", code=1)
    assert json.loads(hilum("check", "CLAUDE.md", "--json", code=1))["problems"][0]["line"] == 1
    missing = hilum("check", "missing.md", code=2)
    assert "E_NOT_FOUND: There is no file 'missing.md'." in missing


def test_another_folder_and_another_kind_of_session(hilum: Callable[..., str], put: Put) -> None:
    put(
        {
            "sub/AGENTS.md": "## Hard rules\n- Do not load `CLAUDE.md` in shared sessions.\n",
            "sub/CLAUDE.md": "- Private.\n",
        }
    )
    assert "Private." in hilum("-C", "sub")
    text = hilum("-C", "sub", "--kind", "shared")
    assert "Private." not in text
    assert "CLAUDE.md: Not read:" in text
    unknown = hilum("-C", "sub", "--kind", "private", code=2)
    assert "E_BAD_ARGS" in unknown
    assert "main" in unknown


def test_without_rules_the_page_is_named(hilum: Callable[..., str]) -> None:
    assert "There are no rules here." in hilum()


def test_wrong_use_is_told(hilum: Callable[..., str], put: Put) -> None:
    assert "E_BAD_ARGS" in hilum("show", code=2)
    assert "E_BAD_ARGS" in hilum("list", "x", code=2)
    assert "E_BAD_ARGS" in hilum("--colour", code=2)
    assert "There is no folder" in hilum("-C", "nowhere", code=2)
    put({"settings.toml": "[rules]\nskip = 3\n"}, Path(os.environ["HOME"]) / "config")
    assert "rules.skip" in hilum(code=2)
    assert "usage: hilum rules" in hilum("--help")


def test_a_narrow_terminal(
    hilum: Callable[..., str], put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(FILES)
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(wide, hilum().splitlines())) <= 50


def test_a_process_of_its_own_whose_terminal_knows_little(root: Path, home: Path, put: Put) -> None:
    put(FILES)
    variables = {**os.environ, "HILUM_CONFIG": str(home / "config"), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "hilum", "rules", "show", "1.1"]
    done = subprocess.run(
        command, cwd=root, env=variables, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u5b89" in done.stdout


LONG = (
    "# House\n\n## Never\n\n- Never edit files in `migrations/`.\n- Never be late.\n\n## Facts\n\n"
    + "".join(f"- Fact number {number}.\n" for number in range(40))
    + "\n| Folder | Content |\n|---|---|\n| src | code |\n| doc | text |\n\n"
    + "```\nsrc/\n├── a.py\n└── b.py\n```\n"
)


def test_a_long_file_is_counted_first_and_its_advice_folded(
    hilum: Callable[..., str], put: Put
) -> None:
    put({"AGENTS.md": LONG, "CLAUDE.md": "- Be brief.\n"})
    lines = hilum().splitlines()
    assert lines[0] == "43 rules: 1 enforced, 0 proposed, 42 advice."
    assert "1 sentence that sounds binding is not enforced: run hilum rules compile" in lines
    first = lines.index("1. AGENTS.md (the project's): 1 enforced, 0 proposed, 41 advice")
    assert lines[first + 1] == "2. CLAUDE.md (the project's): 0 enforced, 0 proposed, 1 advice"
    assert "  … 41 more that are advice: hilum rules --advice" in lines
    assert "  … 2 rows of tables or trees, which are not rules" in lines
    assert not any("Fact number" in line for line in lines)
    assert any("Be brief." in line for line in lines)
    assert len(lines) < 25


@pytest.mark.parametrize(
    ("option", "shown", "hidden"),
    [
        ("--enforced", "migrations", "Fact number 3."),
        ("--advice", "Fact number 39.", "Never edit"),
        ("--proposed", "1 enforced", "Never"),
    ],
)
def test_one_kind_of_rules_is_listed_in_full(
    hilum: Callable[..., str], put: Put, option: str, shown: str, hidden: str
) -> None:
    put({"AGENTS.md": LONG})
    text = hilum(option)
    assert shown in text
    assert hidden not in text
    states = {rule["state"] for rule in json.loads(hilum(option, "--json"))["rules"]}
    assert states <= {option.removeprefix("--")}


def test_why_a_rule_is_or_is_not_enforced(hilum: Callable[..., str], put: Put) -> None:
    put({"AGENTS.md": LONG})
    assert hilum("--why", "1.1") == hilum("show", "1.1")
    assert "denies writing migrations" in hilum("--why", "1.1")
    assert "`hilum rules compile`, which asks a model for a check" in hilum("--why", "1.2")
    assert "E_BAD_ARGS" in hilum("show", "1.1", "--why", "1.1", code=2)
    assert "There is no rule 9.9." in hilum("--why", "9.9", code=2)


def test_compiling_without_a_terminal_or_a_proposal_signs_nothing(
    hilum: Callable[..., str], put: Put, root: Path
) -> None:
    put({"AGENTS.md": LONG, "sub/AGENTS.md": "- Always rest.\n"})
    assert "E_BAD_ARGS" in hilum("compile", code=2)
    assert "There is no open proposal for rule 1.2." in hilum("compile", "--accept", "1.2", code=2)
    assert "is not a rules file" in hilum("compile", "--accept", "1.1", "--json", "x.md", code=2)
    assert "usage: hilum rules compile" in hilum("compile", "--help")
    assert not (root / ".hilum").exists()


def test_without_the_package_for_compiling_the_command_names_it(
    hilum: Callable[..., str], put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was signed holds without it."""
    monkeypatch.setattr("hilum.sub_commands.entry_points", lambda group: {})
    put({"AGENTS.md": LONG})
    told = hilum("compile", code=2)
    assert "E_NOT_FOUND" in told
    assert "pip install hilum-rules-compile" in told
    assert "enforced" in hilum()


@pytest.mark.parametrize(
    ("requiring", "forbidding", "action"),
    [
        ("Run `npm run lint` before committing.", "Use `pnpm`, not `npm`.", "`npm run lint`"),
        ("Run `make gen` before you edit `src/`.", "Never run `make`.", "`make gen`"),
        ("Read `docs/a.md` before you edit `src/`.", "Do not read `docs/`.", "reading `docs/a.md`"),
    ],
)
def test_rules_that_exclude_each_other_are_reported(
    hilum: Callable[..., str], put: Put, requiring: str, forbidding: str, action: str
) -> None:
    """Otherwise no commit is possible, and nothing says why."""
    put({"AGENTS.md": f"- {forbidding}\n- {requiring}\n"})
    (problem,) = json.loads(hilum("--json"))["problems"]
    assert (problem["path"], problem["line"]) == ("AGENTS.md", 2)
    assert f"requires {action}, which AGENTS.md:1 denies" in problem["message"]
    assert "requires" in hilum("check", "AGENTS.md", code=1)


@pytest.mark.parametrize(
    "rules",
    [
        "- Use `pnpm`, not `npm`.\n- Run `pnpm lint` before committing.\n",
        "- Never run `git push` without asking.\n- Run `npm run lint` before committing.\n",
        "- Run `make test` before committing.\n- Run `make gen` before `make test`.\n",
        "- Never edit `src/a.py`.\n- Read `src/a.py` before you edit `src/`.\n",
    ],
)
def test_rules_that_can_all_be_followed_are_no_contradiction(
    hilum: Callable[..., str], put: Put, rules: str
) -> None:
    put({"AGENTS.md": rules})
    assert json.loads(hilum("--json"))["problems"] == []


@pytest.mark.parametrize("name", [".claude/settings.json", "pyproject.toml", "ci.yml"])
def test_a_file_of_settings_is_no_rules_file(
    hilum: Callable[..., str], put: Put, name: str
) -> None:
    put(
        {name: '{"permissions": {}}', ".hilum/rules.toml": '[[rule]]\nenforce = ["deny write a"]\n'}
    )
    assert "is not a rules file" in hilum("check", name, code=2)
    assert "1 rule " in hilum("check", ".hilum/rules.toml")


def test_the_action_compile_is_listed_and_comes_first(hilum: Callable[..., str]) -> None:
    assert "list, show, check, compile" in hilum("--help")
    assert "comes first" in hilum("-C", ".", "compile", code=2)
