"""What `hilum import` may take over together with other entries, and what it never takes over."""

import json

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum import config_folder
from hilum.foreign_files import find_foreign_files
from hilum_guard.foreign.allow_dangers import explain_refusal, find_danger

PLUGINS = (hilum_guard, hilum_files, hilum_shell)

HARMLESS = """\
run_terminal_cmd(ls *)
run_terminal_cmd(git status *)
run_terminal_cmd(git log *)
run_terminal_cmd(git diff --check)
run_terminal_cmd(pytest *)
run_terminal_cmd(pytest -q tests)
run_terminal_cmd(python3 -m pytest *)
run_terminal_cmd(npm run lint)
run_terminal_cmd(npm run build:web)
run_terminal_cmd(npm test)
run_terminal_cmd(make check)
run_terminal_cmd(make)
run_terminal_cmd(cargo build *)
run_terminal_cmd(cargo test *)
run_terminal_cmd(go test ./...)
run_terminal_cmd(ruff check *)
run_terminal_cmd(cat README.md)
read_file
read_file(/src/**)
list_directory
write_file(/docs/**)
write_file(*.py)
task
""".splitlines()
DANGEROUS = """\
run_terminal_cmd
run_terminal_cmd(*)
run_terminal_cmd(g*)
run_terminal_cmd(* status)
run_terminal_cmd(git *)
run_terminal_cmd(git -c *)
run_terminal_cmd(git push *)
run_terminal_cmd(git commit *)
run_terminal_cmd(git log --output=x)
run_terminal_cmd(go test *)
run_terminal_cmd(go test -exec /tmp/x)
run_terminal_cmd(npm run *)
run_terminal_cmd(npm test *)
run_terminal_cmd(make *)
run_terminal_cmd(make -f /tmp/x)
run_terminal_cmd(make SHELL=/tmp/x)
run_terminal_cmd(pytest /tmp/x.py)
run_terminal_cmd(pytest ../x.py)
run_terminal_cmd(rg --pre *)
run_terminal_cmd(. ./x)
run_terminal_cmd(./run.sh)
run_terminal_cmd(/tmp/x)
run_terminal_cmd(cat *)
run_terminal_cmd(cat .env)
run_terminal_cmd(rm -rf /)
run_terminal_cmd(hilum trust)
write_service
write_file
write_file(**)
write_file(/**)
write_file(/*/*)
write_file(//etc/passwd)
write_file(../x)
write_file(.github/workflows/**)
read_file(//**)
read_file(.env*)
web_fetch
web_fetch(domain:*.com)
web_fetch(domain:evil.example)
handover
tickets__create
*__*
*
""".splitlines()
PROGRAMS = """python3.11 python pypy ipython jupyter Rscript node busybox script vim emacs ed man less tar zip
    tmux screen expect strace gdb crontab systemctl nice time timeout watch env xargs find sed awk sqlite3 psql
    command builtin trap eval source export alias hilum sort tee curl ssh docker git unknown""".split()


@pytest.mark.parametrize("rule", HARMLESS)
def test_a_short_list_may_be_taken_over_together(tmp_path, rule):
    assert find_danger(rule, tmp_path) == ""
    assert explain_refusal(rule) == ""


@pytest.mark.parametrize(
    "rule", [*DANGEROUS, *(f"run_terminal_cmd({program} *)" for program in PROGRAMS)]
)
def test_everything_else_is_dangerous(tmp_path, rule):
    assert find_danger(rule, tmp_path)


def test_a_script_that_publishes_is_dangerous(tmp_path):
    scripts = {"scripts": {"lint": "eslint .", "release": "git push --force"}}
    (tmp_path / "package.json").write_text(json.dumps(scripts))
    assert find_danger("run_terminal_cmd(npm run lint)", tmp_path) == ""
    assert find_danger("run_terminal_cmd(npm run release)", tmp_path)


@pytest.mark.parametrize(
    "rule",
    [
        "read_file(.env)",
        "read_file(/.env)",
        "read_file(**/.env)",
        "read_file(//home/me/.ssh/id_rsa)",
        "write_file(/.git/hooks/pre-commit)",
        "write_file(/.git/**)",
        "write_file(/.VSCODE/tasks.json)",
        "write_file(/.hilum/**)",
        "write_file(//home/me/.bashrc)",
        "write_file(.cursorignore)",
        "edit_file(/.claude/settings.json)",
    ],
)
def test_a_rule_that_names_a_protected_file_is_never_taken_over(rule):
    assert "asks about such a file each time" in explain_refusal(rule)


async def test_no_imported_rule_replaces_the_question_about_a_protected_file(bench, asked):
    """All offers are taken over, the dangerous ones too."""
    allow = """Read(./.env) Read(**) Read Edit(.git/hooks/pre-commit) Write(.vscode/tasks.json) Edit(**)
        Edit(.cursorignore) Write(.cursorignore) Bash(cat:*) Bash(cp:*) Edit(*) Write Edit(.vscode/**)""".split()
    files = {
        ".claude/settings.json": json.dumps({"permissions": {"allow": allow}}),
        ".env": "KEY=1",
        ".cursorignore": "private/\n",
        "a.txt": "#!/bin/sh\n",
    }
    kit = await bench(*PLUGINS, approve="ask_first", files=files)
    offers = [
        (file, offer)
        for file in find_foreign_files(kit.workspace)
        for offer in file.offers
        if file.kind == "permissions"
    ]
    assert offers
    for file, offer in offers:
        offer.take(file.user)
    assert "run_terminal_cmd(cat *)" in (config_folder() / "permissions.toml").read_text()
    calls = [
        ("read_file", {"path": ".env"}),
        ("run_terminal_cmd", {"command": "cat .env"}),
        ("run_terminal_cmd", {"command": "cp .env x"}),
        ("run_terminal_cmd", {"command": "cp a.txt .git/hooks/pre-commit"}),
        ("write_file", {"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"}),
        ("write_file", {"path": ".vscode/tasks.json", "content": "{}"}),
        ("write_file", {"path": ".cursorignore", "content": ""}),
    ]
    # hilum never replaces an unread file, so the question would not be reached.
    await kit.call("read_file", path=".cursorignore")
    for name, arguments in calls:
        assert (await asked(kit, name, **arguments)).call.name == name, arguments
    assert (await kit.call("write_file", path="b.txt", content="x")).code == ""
