"""Rules of other agents hold for every spelling of a command, and for no other command."""

import json

import pytest
from hilum_guard.commands import judge_command
from hilum_guard.effects.resolved_effects import resolve_effects
from hilum_guard.foreign.files import AGENTS
from hilum_guard.foreign.loading import load_foreign_rules
from hilum_guard.rules.matching import CallFacts, explain, fit

CLAUDE = ".claude/settings.json"
UV = {"deny": ["Bash(pytest:*)", "Bash(ruff:*)", "Bash(curl:*)"], "allow": ["Bash(uv run:*)"]}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project beside an empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    return folder.resolve()


def read_rules(project, name, text):
    """Return the rules that a file becomes."""
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (rules,) = load_foreign_rules(project, tuple(AGENTS))
    return rules


def permissions(**lists):
    """Return the text of settings of Claude Code."""
    return json.dumps({"permissions": lists})


def fits(project, rules, command):
    """Return how the rules about commands fit a command line."""
    line = judge_command(command, workspace=project)
    resolved = resolve_effects(line.all_commands, str(project), complete=line.complete)
    facts = CallFacts(
        "run_terminal_cmd",
        {"command": command},
        command=line,
        category="execute",
        resolved=resolved,
    )
    return {fit(each, facts) for each in rules.rules}


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(git clean -fd:*)", "git clean -f -d"),
        ("Bash(git clean -fd:*)", "git -C . clean -xdf"),
        ("Bash(git clean -fd:*)", "git clean --force -d"),
        ("Bash(git push -f:*)", "git push -uf origin x"),
        ("Bash(git push -f:*)", "git push origin x --force"),
        ("Bash(git reset --hard:*)", "git reset --har HEAD"),
        ("Bash(git branch -D:*)", "git branch --delete --force x"),
        ("Bash(git branch -D:*)", "git branch -df x"),
        ("Bash(git commit --no-verify:*)", "git commit -anm x"),
        ("Bash(git tag -d:*)", "git tag --delete v1"),
        ("Bash(pip install:*)", "pip3 install x"),
        ("Bash(pip install:*)", "/usr/bin/pip3.12 install x"),
        ("Bash(pip3 install:*)", "pip install x"),
        ("Bash(python manage.py migrate:*)", "python3 manage.py migrate"),
        ("Bash(python manage.py migrate:*)", "python3.12 ./manage.py migrate"),
        ("Bash(./scripts/deploy.sh:*)", "scripts/deploy.sh now"),
        ("Bash(git push --force:*)", "git push origin +main"),
        ("Bash(git push --delete:*)", "git push origin :old"),
        ("Bash(git rebase -i:*)", "git rebase --interactive main"),
        ("Bash(npm i:*)", "npm install x"),
        ("Bash(npm i)", "npm add x"),
        ("Bash(npx:*)", "npm exec x"),
        ("Bash(npx *)", "npm x y"),
        ("Bash(pnpm dlx:*)", "pnpx x"),
        ("Bash(docker compose down:*)", "docker-compose down"),
        ("Bash(docker-compose down:*)", "docker compose -f x.yml down"),
        ("Bash(docker rm:*)", "docker container rm x"),
        ("Bash(apt-get install:*)", "apt install x"),
        ("Bash(kubectl delete namespace:*)", "kubectl delete ns x"),
        ("Bash(cargo run:*)", "cargo r"),
        ("Bash(docker rm -f:*)", "docker rm --force x"),
        ("Bash(docker rm --force:*)", "docker rm -f x"),
        ("Bash(docker rm -f:*)", "docker rm x --force"),
        ("Bash(docker rm -f:*)", "docker rm -vf x"),
        ("Bash(docker rm -f:*)", "docker container rm --force x"),
        ("Bash(docker container rm -f:*)", "docker rm --force x"),
        ("Bash(docker rmi -f:*)", "docker image rm --force x"),
        ("Bash(docker image rm --force:*)", "docker rmi -f x"),
        ("Bash(docker rm -v:*)", "docker rm --volumes x"),
        ("Bash(chmod 777:*)", "chmod 0777 x"),
        ("Bash(chmod 0777:*)", "chmod 777 x"),
        ("Bash(chmod -R 777:*)", "chmod --recursive 0777 x"),
        ("Bash(yarn install)", "yarn"),
        ("Bash(yarn install:*)", "yarn --frozen-lockfile"),
        ("Bash(yarn install:*)", "cd web && yarn"),
        ("Bash(yarn install:*)", "yarn --cwd web"),
        ("Bash(yarn)", "yarn install"),
        ("Bash(pip install:*)", "uv pip install x"),
        ("Bash(pip3 install:*)", "uv pip install x"),
        ("Bash(uv pip install:*)", "pip install x"),
        ("Bash(uv pip install:*)", "pip3 install x"),
        ("Bash(pip uninstall:*)", "uv pip uninstall x"),
    ],
)
def test_a_denial_holds_for_each_spelling(project, rule, command):
    rules = read_rules(project, CLAUDE, permissions(deny=[rule]))
    assert "yes" in fits(project, rules, command)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(git branch -D:*)", "git branch -d x"),
        ("Bash(git clean -fd:*)", "git clean -f"),
        ("Bash(git clean -fd:*)", "git clean -nd"),
        ("Bash(git push -f:*)", "git push -u origin x"),
        ("Bash(git push --force:*)", "git push --follow-tags"),
        ("Bash(git reset --hard:*)", "git reset --soft HEAD~1"),
        ("Bash(git commit --no-verify:*)", "git commit -am 'no verify'"),
        ("Bash(git push --force:*)", "git push origin main"),
        ("Bash(git push --delete:*)", "git push origin main:old"),
        ("Bash(npm i:*)", "npm run install-all"),
        ("Bash(node:*)", "nodemon x.js"),
        ("Bash(docker compose down:*)", "docker compose up"),
        ("Bash(pip install:*)", "pipx install x"),
        ("Bash(pip install:*)", "uv pip list"),
        ("Bash(uv pip install:*)", "pip list"),
        ("Bash(pip install:*)", "uv add x"),
        ("Bash(docker rm -f:*)", "docker rm x"),
        ("Bash(docker rm -f:*)", "docker run --force x"),
        ("Bash(docker rm -f:*)", "docker rm -v x"),
        ("Bash(docker rm -f:*)", "docker rmi --force x"),
        ("Bash(chmod 777:*)", "chmod 0755 x"),
        ("Bash(chmod 777:*)", "chmod 4777 x"),
        ("Bash(chmod 0755:*)", "chmod 777 x"),
        ("Bash(yarn install:*)", "yarn test"),
        ("Bash(yarn install:*)", "yarn --version"),
        ("Bash(yarn install:*)", "yarn -v"),
        ("Bash(yarn install:*)", "yarn --cwd web test"),
        ("Bash(python manage.py migrate:*)", "python manage.py makemigrations"),
    ],
)
def test_a_denial_does_not_hold_for_another_option(project, rule, command):
    rules = read_rules(project, CLAUDE, permissions(deny=[rule]))
    assert fits(project, rules, command) == {""}


@pytest.mark.parametrize(
    "command", ["uv run pytest -q", "uv run ruff check .", "uv run --frozen pytest", "make test"]
)
def test_a_runner_that_the_same_file_allows_runs_a_tool_that_it_denies(project, command):
    (project / "Makefile").write_text("test:\n\tuv run pytest\n")
    rules = read_rules(project, CLAUDE, permissions(**UV))
    assert "yes" not in fits(project, rules, command)
    assert "except if it is run by uv run *" in explain(rules.rules[0])


@pytest.mark.parametrize(
    "command",
    [
        "pytest",
        "python -m pytest",
        "bash -c 'pytest -q'",
        "uvx ruff check .",
        "poetry run pytest",
        # Programs that no project installs in its environment.
        "uv run curl example.com",
        "uv run --frozen curl example.com",
    ],
)
def test_a_denied_tool_is_denied_without_the_runner(project, command):
    rules = read_rules(project, CLAUDE, permissions(**UV))
    assert "yes" in fits(project, rules, command)


@pytest.mark.parametrize(
    "lists",
    [
        # Nothing allows the runner.
        {"deny": ["Bash(pytest:*)"]},
        {"deny": ["Bash(pytest:*)"], "allow": ["Bash(uv add:*)"]},
        # The arguments are what the rule is about, so it holds with a runner, too.
        {"deny": ["Bash(pytest --deploy:*)"], "allow": ["Bash(uv run:*)"]},
    ],
)
def test_a_runner_that_is_not_allowed_changes_nothing(project, lists):
    rules = read_rules(project, CLAUDE, permissions(**lists))
    assert "yes" in fits(project, rules, "uv run pytest --deploy")


@pytest.mark.parametrize(
    ("denied", "allowed", "command", "spared"),
    [
        ("pip install", "uv pip install", "uv pip install x", "pip install x"),
        ("pip install", "uv", "uv pip install x", "pip3 install x"),
        ("uv pip install", "pip install", "pip install x", "uv pip install x"),
    ],
)
def test_a_file_that_allows_one_installer_denies_only_the_other(
    project, denied, allowed, command, spared
):
    lists = {"deny": [f"Bash({denied}:*)"], "allow": [f"Bash({allowed}:*)"]}
    rules = read_rules(project, CLAUDE, permissions(**lists))
    assert fits(project, rules, command) == {""}
    assert "yes" in fits(project, rules, spared)


def test_an_installer_that_is_denied_by_name_stays_denied(project):
    denied = ["Bash(pip install:*)", "Bash(uv pip install:*)"]
    rules = read_rules(project, CLAUDE, permissions(deny=denied, allow=["Bash(uv:*)"]))
    assert "yes" in fits(project, rules, "uv pip install x")
    assert "yes" in fits(project, rules, "pip install x")


def test_a_file_does_not_weaken_the_rules_of_another(project):
    (project / ".cursor").mkdir()
    cursor = {"permissions": {"deny": ["Shell(pytest)"]}}
    (project / ".cursor/cli.json").write_text(json.dumps(cursor))
    (project / ".claude").mkdir()
    (project / CLAUDE).write_text(permissions(**UV))
    for rules in load_foreign_rules(project, tuple(AGENTS)):
        is_denied = "yes" in fits(project, rules, "uv run pytest")
        assert is_denied == (rules.place.agent == "Cursor")


def test_a_tool_of_opencode_is_on_after_a_wildcard_that_switches_all_off(project):
    text = '{"tools": {"*": false, "read": true, "edit": true}, "permission": {"edit": "ask"}}'
    rules = read_rules(project, "opencode.json", text)
    effects = {(rule.effect, rule.tool) for rule in rules.rules}
    assert ("deny", "run_terminal_cmd") in effects
    assert ("deny", "web_fetch") in effects
    assert ("deny", "list_directory") in effects
    assert ("ask", "write_file") in effects
    assert not {("deny", "read_file"), ("deny", "write_file")} & effects
    # That a tool exists is no permission to use it without approval.
    assert rules.allowed == []


def test_a_tool_of_opencode_that_is_switched_off_last_stays_off(project):
    rules = read_rules(project, "opencode.json", '{"tools": {"read": true, "*": false}}')
    assert ("deny", "read_file") in {(rule.effect, rule.tool) for rule in rules.rules}


def policy(text):
    """Return the text of a policy with one rule."""
    return f'[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "make deploy"\n{text}'


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("", "ask"),
        ('decision = ""', "ask"),
        ('decision = "refuse"', "deny"),
        ('decision = "deny"\nmodes = ["plan", "default"]', "deny"),
    ],
)
def test_a_policy_without_a_decision_asks(project, text, effect):
    rules = read_rules(project, ".gemini/policies/a.toml", policy(text))
    assert [rule.effect for rule in rules.rules] == [effect]


def test_a_policy_for_the_plan_mode_is_named_and_restricts_nothing_else(project):
    text = policy('decision = "deny"\nmodes = ["plan"]')
    rules = read_rules(project, ".gemini/policies/a.toml", text)
    assert rules.rules == []
    (reason,) = rules.unapplied
    assert "deny run_shell_command: make deploy: this rule of Gemini CLI is for its plan" in reason


def test_a_policy_that_allows_in_the_default_mode_can_be_taken_over(project):
    text = policy('decision = "allow"\nmodes = ["default", "autoEdit"]\n')
    text += policy('decision = "allow"\nmodes = ["autoEdit"]\n')
    rules = read_rules(project, ".gemini/policies/a.toml", text)
    assert [entry.rules for entry in rules.allowed] == [("run_terminal_cmd(make deploy *)",)]
    reason = "it allows only in other modes of Gemini CLI (autoEdit)"
    assert rules.left == [f"allow run_shell_command: make deploy (line 6): {reason}"]


def test_the_names_that_gemini_displays_are_known(project):
    text = json.dumps({"excludeTools": ["Shell", "findFiles"], "allowedTools": ["ReadFile"]})
    rules = read_rules(project, ".gemini/settings.json", text)
    denied = {rule.tool for rule in rules.rules}
    assert {"run_terminal_cmd", "list_directory", "glob_search"} <= denied
    assert "read_file" in rules.allowed[0].rules


def test_a_tool_of_gemini_that_hilum_does_not_have_is_not_offered(project):
    text = json.dumps({"allowedTools": ["send_command_input"]})
    rules = read_rules(project, ".gemini/settings.json", text)
    assert rules.allowed == []
    assert rules.left == ["send_command_input (line 1): hilum has no such tool"]
