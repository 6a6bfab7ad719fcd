"""Ten projects with settings of several agents, in the shapes that published repositories have."""

import json
from typing import Any, NamedTuple

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum.foreign_files import find_foreign_files

PLUGINS = (hilum_guard, hilum_files, hilum_shell)


class Project(NamedTuple):
    """A project.

    Attributes:
        files: Its files; values other than text are written as JSON.
        denied: Commands and paths (``read PATH``, ``write PATH``) that its settings deny.
        allowed: Those that they do not restrict.
    """

    files: dict[str, Any]
    denied: tuple[str, ...]
    allowed: tuple[str, ...]


def settings(**lists: list[str]) -> dict[str, Any]:
    return {"$schema": "https://json.example/settings.json", "permissions": lists}


SECRETS = ["Read(./.env)", "Read(./.env.*)", "Read(./secrets/**)", "Read(**/*.pem)"]
PROJECTS = {
    "secrets of a web service": Project(
        {".claude/settings.json": settings(deny=SECRETS, allow=["Bash(npm run lint)"])},
        ("read .env", "cat .env", "cat secrets/a.txt", "head -c 9 a/b/c.pem", "cp .env x.txt"),
        ("read a.txt", "ls", "write b.txt"),
    ),
    "no pushes and no network": Project(
        {
            ".claude/settings.json": settings(
                deny=["Bash(git push*)", "Bash(curl:*)", "Bash(wget:*)", "Bash(curl * | sh)"],
                ask=["Bash(git commit:*)"],
            ),
            "CLAUDE.md": "# Shop\n",
        },
        ("git push origin main", "git -C . push", "bash -c 'git push'", "curl example.com | sh"),
        ("git status", "git log -1", "write b.txt"),
    ),
    "a frozen folder": Project(
        {".claude/settings.json": settings(deny=["Edit(/vendor/**)", "Write(/vendor/**)"])},
        (
            "write vendor/x.py",
            "echo 1 > vendor/x.py",
            "rm vendor/x.py",
            "sed -i s/1/2/ vendor/x.py",
        ),
        ("read vendor/x.py", "cat vendor/x.py", "write b.txt"),
    ),
    "local settings with comments": Project(
        {
            ".claude/settings.local.json": '\ufeff{\n  // mine\n  "permissions": {"deny": '
            '["Bash(*--no-verify*)", "Bash(git reset --hard*)",],},\n}\n'
        },
        ("git commit --no-verify -m x", "git reset --hard HEAD~1"),
        ("git status", "write b.txt"),
    ),
    "Cursor with credentials": Project(
        {
            ".cursor/cli.json": settings(
                deny=[
                    "Read(**/.env)",
                    "Write(**/.env)",
                    "Read(~/.aws/**)",
                    "Shell(rm)",
                    "Shell(gh)",
                ]
            ),
            ".cursorignore": "# private\nprivate/\n!private/readme.md\n",
            ".cursor/rules/a.mdc": "---\nalwaysApply: true\n---\n- Write tests.\n",
        },
        ("read .env", "cat a/.env", "rm a.txt", "gh pr list", "read private/x.md"),
        ("read a.txt", "ls", "read private/readme.md"),
    ),
    "opencode with a default": Project(
        {
            "opencode.json": {
                "permission": {
                    "edit": "allow",
                    "bash": {
                        "*": "ask",
                        "make *": "allow",
                        "touch *": "allow",
                        "rm -rf *": "deny",
                        "git push --force *": "deny",
                        "sudo *": "deny",
                    },
                    "webfetch": "ask",
                },
                "instructions": ["AGENTS.md"],
            }
        },
        ("rm -rf build", "git push --force origin", "sudo ls"),
        ("ls", "touch x.txt", "write b.txt", "git status"),
    ),
    "opencode that only looks": Project(
        {
            "opencode.jsonc": '{"permission": {"edit": "deny", "bash": {"*": "deny", "ls *": "allow"}}}'
        },
        ("write b.txt", "touch x", "ls && touch x", "git status"),
        ("ls", "ls -la", "read a.txt"),
    ),
    "Gemini without a shell for some": Project(
        {
            ".gemini/settings.json": {
                "tools": {"exclude": ["run_shell_command(rm)", "run_shell_command(git push)"]},
                "mcpServers": {},
            },
            ".gemini/policies/team.toml": '[[rule]]\ntoolName = "run_shell_command"\n'
            'commandRegex = "^npm (publish|unpublish).*"\ndecision = "deny"\npriority = 500\n',
            "GEMINI.md": "# Notes\n",
        },
        ("rm a.txt", "git push", "npm publish", "npm unpublish x"),
        ("ls", "git status", "write b.txt"),
    ),
    "Codex with a profile and rules": Project(
        {
            ".codex/rules/default.rules": "prefix_rule(\n"
            '    pattern = ["git", ["push", "reset"]],\n    decision = "forbidden",\n'
            '    match = ["git push origin"],\n)\n',
            ".codex/config.toml": 'default_permissions = "w"\n'
            '[permissions.w.filesystem.":workspace_roots"]\n"." = "write"\n"keys/**" = "deny"\n',
        },
        ("git push", "git reset HEAD", "cat keys/a", "read keys/a", "write keys/a"),
        ("git status", "read a.txt", "write b.txt"),
    ),
    "four agents at once": Project(
        {
            ".claude/settings.json": settings(deny=["Bash(npm publish:*)", "mcp__github__delete"]),
            ".gemini/settings.json": {"excludeTools": ["run_shell_command(docker)"]},
            ".cursor/cli.json": settings(deny=["Shell(kubectl)"]),
            "opencode.json": {"permission": {"bash": {"terraform *": "deny"}}},
            ".vscode/settings.json": {"chat.tools.edits.autoApprove": {"**/*.lock": False}},
        },
        ("npm publish", "docker ps", "kubectl get pods", "terraform plan"),
        ("ls", "write b.txt"),
    ),
}
CONTENT = {
    "a.txt": "x",
    ".env": "A=1",
    "a/.env": "A=1",
    "a/b/c.pem": "k",
    "secrets/a.txt": "s",
    "vendor/x.py": "1",
    "keys/a": "k",
    "private/x.md": "p",
    "private/readme.md": "r",
    "build/x": "1",
}


async def call(kit: Any, action: str) -> Any:
    verb, _, path = action.partition(" ")
    if verb == "read":
        return await kit.call("read_file", path=path)
    if verb == "write":
        return await kit.call("write_file", path=path, content="2")
    return await kit.call("run_terminal_cmd", command=action)


@pytest.mark.parametrize("name", PROJECTS)
async def test_denials_hold_in_the_first_session_without_a_question(bench, name):
    project = PROJECTS[name]
    texts = {
        path: value if isinstance(value, str) else json.dumps(value, indent=2)
        for path, value in project.files.items()
    }
    kit = await bench(*PLUGINS, approve="auto", files={**CONTENT, **texts})
    for action in project.denied:
        result = await call(kit, action)
        assert result.code == E_DENIED, action
        assert str(kit.workspace) in result.text, action
    for action in project.allowed:
        result = await call(kit, action)
        assert result.code in ("", "E_CMD_FAIL"), (action, result.text)
    assert kit.of(ApprovalAsked) == []


@pytest.mark.parametrize("name", PROJECTS)
def test_every_file_with_permissions_is_listed(tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path / "config"))
    folder = (tmp_path / "project").resolve()
    for path, value in PROJECTS[name].files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value))
    found = {str(file.path.relative_to(folder)) for file in find_foreign_files(folder)}
    assert set(PROJECTS[name].files) <= found
