"""Checks on content, commit messages and commands that must run first, and ``rules.toml``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hilum_agents
import hilum_agents.runs
import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum import Tool
from hilum.events import CallDone
from hilum.testing import Bench, open_bench, use
from hilum_checks import compile_lines, judge
from hilum_rules import load_rules
from hilum_rules.rule_store import RuleStore

RISKS = {"write_file": "write", "edit_file": "write", "multi_edit": "write", "guest_edit": "write"}


class Ruled:
    """A rule with one line in the notation."""

    sentence = "The rule."
    path = "AGENTS.md"
    line = 1

    def __init__(self, line: str) -> None:
        compiled, problems = compile_lines([line])
        assert problems == []
        self.check = compiled.check


def judged(line: str, tool: str, root: Path, **arguments: Any) -> str:
    made = Tool(
        tool,
        "",
        lambda: "",
        risk=RISKS.get(tool, "execute"),  # type: ignore[arg-type]
        writes=("path", "paths") if tool in RISKS else (),
        schema={} if tool.startswith("mcp__") else None,
    )
    found = judge([Ruled(line)], json.dumps(arguments), made, root)
    return found.kind if found else ""


def shell(line: str, command: str, root: Path) -> str:
    return judged(line, "run_terminal_cmd", root, command=command)


# --- notation -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "deny content /console\\.log/ in src/**",
            r"denies writing text that matches /console\.log/ in src/**",
        ),
        (
            "ask content /TODO/i in src/** except src/tmp/",
            "asks before writing text that matches /(?i)TODO/ in src/**, except src/tmp",
        ),
        ("deny content /eval\\(/", r"denies writing text that matches /eval\(/"),
        ("deny commit-message /wip/i", "denies a commit message that matches /(?i)wip/"),
        (
            "require commit-message /^(feat|fix)/",
            "denies a commit message that does not match /^(feat|fix)/",
        ),
        (
            "require command make test before command git push",
            "denies the command `git push` or `git send-pack` or `git subtree push` before the"
            " command `make test` has succeeded",
        ),
        ("deny command git commit --no-verify", "denies the command `git commit --no-verify`"),
        (
            "deny command dotnet test except dotnet test --verbosity",
            "denies the command `dotnet test`, except `dotnet test --verbosity`",
        ),
        ("deny command git push to branch main", "denies the command `git push`"),
        ("deny change migrations/**", "denies changing and deleting migrations/**"),
    ],
)
def test_a_line_is_a_typed_check(line: str, says: str) -> None:
    compiled, problems = compile_lines([line])
    assert problems == []
    assert compiled.check is not None
    assert compiled.check.summary.startswith(says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("deny content console.log in src/**", r"denies writing text that matches /console\.log/"),
        ("deny content /(/ in src/**", "denies writing src/**"),
        (
            "deny content /x/ in !src",
            "denies writing text that matches /x/",
        ),
        ("deny commit-message wip", "denies a commit message that matches /wip/"),
        ("require commit-message (", "denies a commit message that matches /./"),
        ("deny command npx except", "denies the command `npx`"),
        ("deny command npx except (", "denies the command `npx`"),
        ("require command pytest", ""),
        ("require command | before git tag", "denies the command `git tag`"),
        ("require write src/**", "denies writing src/**"),
        ("deny commit-mesage /wip/", "denies a commit message that matches /wip/"),
    ],
)
def test_a_malformed_line_fails_closed(line: str, says: str) -> None:
    compiled, problems = compile_lines([line])
    assert [number for number, _ in problems] == [0]
    assert (compiled.check.summary if compiled.check else "") == says


# --- content --------------------------------------------------------------------------------------

LOG = r"deny content /console\.log/ in src/**"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    (root / "src").mkdir()
    (root / "src/old.js").write_text("console.log(1)\n")
    return root


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("write_file", {"path": "src/a.js", "content": "console.log(1)"}, "deny"),
        ("write_file", {"path": "src/a.js", "content": "log(1)"}, ""),
        ("write_file", {"path": "docs/a.js", "content": "console.log(1)"}, ""),
        # what is there already may stay, and may be moved
        ("write_file", {"path": "src/old.js", "content": "\n\nconsole.log(1)"}, ""),
        ("write_file", {"path": "src/old.js", "content": "console.log(1)" * 2}, "deny"),
        (
            "edit_file",
            {"path": "src/a.js", "old_string": "x", "new_string": "console.log"},
            "deny",
        ),
        (
            "edit_file",
            {"path": "src/old.js", "old_string": "console.log(1)", "new_string": "console.log(2)"},
            "",
        ),
        (
            "multi_edit",
            {
                "path": "src/a.js",
                "edits": [
                    {"old_string": "a", "new_string": "b"},
                    {"old_string": "c", "new_string": "console.log"},
                ],
            },
            "deny",
        ),
        (
            "guest_edit",
            {"paths": ["src/a.js"], "change": "--- a\n+++ b\n-x\n+console.log()"},
            "deny",
        ),
        ("guest_edit", {"paths": ["src/a.js"], "change": "-console.log()\n+x"}, ""),
        ("mcp__fs__write", {"path": "src/a.js", "data": "console.log(1)"}, "deny"),
    ],
)
def test_forbidden_text_is_not_added_to_files(
    tool: str, arguments: dict[str, Any], kind: str, root: Path
) -> None:
    assert judged(LOG, tool, root, **arguments) == kind


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("echo 'console.log(1)' > src/a.js", "deny"),
        ("cat > src/a.js <<'E'\nconsole.log(1)\nE", "deny"),
        ("sed -i 's/x/console.log/' src/old.js", "deny"),
        ("echo 'console.log(1)' | tee -a src/a.js", "deny"),
        ("echo x > src/a.js", ""),
        ("grep -r console.log src", ""),
        ("echo console.log > notes.txt", ""),
    ],
)
def test_nor_by_commands(command: str, kind: str, root: Path) -> None:
    assert shell(LOG, command, root) == kind


def test_an_expression_that_takes_too_long_denies(root: Path) -> None:
    line = "deny content /(a+)+$/ in src/**"
    text = "a" * 5000 + "b"
    assert judged(line, "write_file", root, path="src/a.js", content=text) == "deny"


# --- commit messages ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "wip", "typed"),
    [
        ("git commit -m 'wip: x'", "deny", "deny"),
        ("git commit -am 'feat: x'", "", ""),
        ("git commit -m 'feat: x' -m 'still WIP'", "deny", ""),
        ("git commit --message='Wip'", "deny", "deny"),
        ("git -C . commit -mwip", "deny", "deny"),
        ("git add . && git commit -m 'fix: x'", "", ""),
        ("git commit -m \"$(cat <<'EOF'\nfix: x\n\nwip\nEOF\n)\"", "deny", ""),
        ("git commit -m \"$(cat <<'EOF'\nfix: x\nEOF\n)\"", "", ""),
        ("git commit -F message.txt", "deny", "deny"),
        ('git commit -m "$MESSAGE"', "ask", "ask"),
        ("git commit", "ask", "ask"),
        ("git commit --amend --no-edit", "", ""),
        ("git commit -m 'Merge branch x'", "", ""),
        ("git log --grep wip", "", ""),
        ("bash -c \"git commit -m 'wip'\"", "deny", "deny"),
    ],
)
def test_commit_messages_are_judged(command: str, wip: str, typed: str, root: Path) -> None:
    (root / "message.txt").write_text("wip\n")
    assert shell("deny commit-message /wip/i", command, root) == wip
    assert shell("require commit-message /^(feat|fix)/", command, root) == typed


def test_commit_messages_of_servers_are_judged(root: Path) -> None:
    line = "deny commit-message /wip/i"
    assert judged(line, "mcp__git__git_commit", root, message="WIP") == "deny"
    assert judged(line, "mcp__git__git_commit", root, message="Done") == ""


# --- commands that must run first -----------------------------------------------------------------

RULES = "- Test first.\n  enforce: require command sh check.sh before git commit\n"
FILES = {"AGENTS.md": RULES, "check.sh": "test ! -e broken\n", "a.txt": "a\n"}


async def run(kit: Bench, command: str) -> str:
    return (await kit.call("run_terminal_cmd", command=command, timeout=20)).text


async def test_a_command_must_have_succeeded_since_the_last_write() -> None:
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files=FILES,
        settings={"guard.unsandboxed": "run"},
    ) as kit:
        refused = "“Test first.” (AGENTS.md:1)"
        commit = "git commit -m x"
        assert refused in await run(kit, commit)
        # A pipe hides the exit code, and an option may keep the command from doing anything.
        await run(kit, "sh check.sh | cat")
        assert refused in await run(kit, commit)
        await run(kit, "sh check.sh --help")
        assert refused in await run(kit, commit)
        await run(kit, "sh check.sh")
        assert refused not in await run(kit, commit)
        await kit.call("write_file", path="b.txt", content="b")
        assert refused in await run(kit, commit)
        await run(kit, "sh check.sh")
        assert refused not in await run(kit, commit)
        await run(kit, "echo x > broken")
        await run(kit, "sh check.sh")
        assert refused in await run(kit, commit)


# --- rules.toml -----------------------------------------------------------------------------------

TABLE = """\
# Checks of this project.
[[rule]]
text = "The schema is frozen."
enforce = "deny write schema/**"

[[rule]]
enforce = [
    "ask command make deploy",
    "deny commit-message /wip/i",
]
"""


def load(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    return load_rules(file)


def test_a_table_contains_checks(tmp_path: Path) -> None:
    file = load(tmp_path, TABLE)
    assert file.problems == ()
    assert [(rule.line, rule.hard, rule.check.summary) for rule in file.rules] == [
        (2, True, "denies writing schema/**"),
        (
            6,
            True,
            "denies a commit message that matches /(?i)wip/; asks before the command `make deploy`",
        ),
    ]
    assert file.rules[0].sentence == "The schema is frozen."


@pytest.mark.parametrize(
    ("text", "line", "message", "checks"),
    [
        ('[[rule]]\nenforce = "deny wirte a/"\n', 2, "did you mean", 1),
        ('[[rule]]\nenforce = ["deny write a/", 3]\n', 2, "only strings", 1),
        ('[[rule]]\nenforce = "deny write a/"\ncolour = 1\n', 3, "'colour' is not a key", 1),
        ('[[rule]]\ntext = "x"\n', 1, "no check", 0),
        ('[[rule]]\ntext = 3\nenforce = "deny write a/"\n', 2, "not a sentence", 1),
        ('allow = true\n[[rule]]\nenforce = "deny write a/"\n', 1, "'allow' is not a key", 1),
        ('[rule]\nenforce = "deny write a/"\n', 1, "not a list of tables", 1),
        ('[[rule]]\nenforce = "deny write a/"\n[[rule\n', 3, "not valid TOML", 1),
        ('[[rule]]\nenforce = "allow write a/"\n', 2, "neither deny, ask nor require", 1),
        ('\n# "deny write b/"\n[[rule]\nenforce = ["deny write a/"]\n', 3, "not valid TOML", 1),
    ],
)
def test_mistakes_in_a_table_are_reported_and_fail_closed(
    text: str, line: int, message: str, checks: int, tmp_path: Path
) -> None:
    file = load(tmp_path, text)
    found = [problem for problem in file.problems if message in problem.message]
    assert [problem.line for problem in found] == [line]
    assert len([rule for rule in file.rules if rule.check]) == checks
    assert all("a" in rule.check.summary for rule in file.rules)


def test_hidden_characters_in_a_table_are_reported_as_in_markdown(tmp_path: Path) -> None:
    hidden = "\n".join(["# a\u200bb"] * 22)
    problems = load(tmp_path, f"{TABLE}{hidden}\n").problems
    assert len(problems) == 21
    assert problems[0].message.startswith("1 hidden character, which are invisible to you")
    assert problems[-1].message == "Hidden characters on 2 more lines, the last on 32."


def test_the_tables_of_project_and_user_are_found(
    put: Callable[..., None], current: Callable[..., RuleStore], home: Path
) -> None:
    put({".hilum/rules.toml": TABLE, "web/.hilum/rules.toml": TABLE.replace("schema", "gen")})
    put({".git/HEAD": "ref: refs/heads/main\n"})
    put({"rules.toml": '[[rule]]\nenforce = "deny write mine/"\n'}, below=home / "config")
    found = current("web")
    summaries = [
        (rule.path, rule.check.summary.partition(";")[0])
        for rule in found.snapshot.bundle.rules
        if rule.check
    ]
    messages = "denies a commit message that matches /(?i)wip/"
    assert summaries == [
        ("../home/config/rules.toml", "denies writing mine"),
        ("../.hilum/rules.toml", "denies writing schema/**"),
        ("../.hilum/rules.toml", messages),
        (".hilum/rules.toml", "denies writing gen/**"),
        (".hilum/rules.toml", messages),
    ]


async def test_an_agent_does_not_rewrite_the_table_without_approval() -> None:
    files = {".hilum/rules.toml": TABLE, "schema/a.sql": "a"}
    async with open_bench(hilum_guard, hilum_files, hilum_rules, files=files) as kit:
        refused = (await kit.call("write_file", path="schema/a.sql", content="b")).text
        assert "“The schema is frozen.” (.hilum/rules.toml:2)" in refused
        await kit.call("write_file", path=".hilum/rules.toml", content="")
        assert (kit.session.workspace.root / ".hilum/rules.toml").read_text() == TABLE


# --- other agents ---------------------------------------------------------------------------------


async def test_checks_hold_in_sub_agents() -> None:
    files = {
        "AGENTS.md": r"- No logs.\n  enforce: deny content /console\.log/".replace("\\n", "\n"),
    }
    answers = [
        use("task", description="Write a file", prompt="Write it."),
        use("write_file", path="a.js", content="console.log(1)"),
        "It was refused.",
        "Done.",
    ]
    async with open_bench(
        hilum_agents,
        hilum_agents.runs,
        hilum_guard,
        hilum_files,
        hilum_rules,
        files=files,
        answers=answers,
    ) as kit:
        await kit.run("Go.")
        texts = [event.result.text for event in kit.of(CallDone)]
        assert any("“No logs.” (AGENTS.md:1)" in text for text in texts)
        assert list(kit.session.workspace.root.glob("*.js")) == []
