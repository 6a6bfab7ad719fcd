"""Every command of a list is enforced, and German sentences, servers and scripts in each spelling."""

import json
from pathlib import Path
from typing import Any

import pytest
from hilum import Tool
from hilum_checks import compile_rule, judge


class Ruled:
    path = "AGENTS.md"
    line = 1

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        self.check = compile_rule(sentence, hard=False).check


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    scripts = {"dev": "vite", "build": "vite build", "test": "vitest run"}
    (root / "package.json").write_text(json.dumps({"scripts": scripts}))
    (root / "manage.py").write_text("import os\n")
    return root


def judged(sentence: str, root: Path, command: str) -> str:
    tool = Tool("run_terminal_cmd", "", lambda: "", risk="execute")
    rules: list[Any] = [Ruled(sentence)]
    found = judge(rules, json.dumps({"command": command}), tool, root)
    return found.kind if found else ""


PUBLISH = "Never publish packages: no `pnpm publish`, no `changeset publish`."
SERVER = "NEVER start the dev server; I have it running already."
MIGRATE = "Führe niemals `python manage.py migrate` oder `python manage.py flush` aus."
CASES = {
    PUBLISH: (
        ["pnpm publish", "pnpm changeset publish", "npx changeset publish", "pnpm exec changeset publish"],
        ["pnpm changeset", "npx changeset version", "pnpm build"],
    ),
    "Never publish: no `npm publish`, no `lerna publish`.": (["npx lerna publish"], ["npx lerna run build"]),
    "Never merge: no `gh pr merge`, no `gh pr close`.": (["gh pr close 3", "gh pr merge 3"], ["gh pr view 3"]),
    "Never merge, no `gh pr merge`, no `gh pr close`.": (["gh pr close 3"], ["gh pr list"]),
    "Don't deploy: no `kubectl apply`, no `make ship`.": (["kubectl apply -f x", "make ship"], ["kubectl get pods"]),
    SERVER: (
        ["npx vite", "npx vite dev", "npm exec vite", "vite --port 3000", "pnpm exec vite --host", "npm run dev"],
        ["npx vite build", "npm run build", "vite -c vite.config.ts build", "npx vite preview", "npx vitest run",
         "vite --version", "npx vite --help", "cat vite.config.ts", "npm test", "npm install -D vite"],
    ),
    "Öffne niemals `.env`.": (["cat .env"], ["cat .env.example", "ls"]),
    "Lies `.env` nie.": (["head .env"], ["touch a"]),
    MIGRATE: (
        ["python manage.py migrate", "python3 manage.py migrate shop", "python3.11 manage.py flush",
         "uv run manage.py migrate", "uv run python manage.py migrate", "./manage.py flush",
         ".venv/bin/python manage.py migrate"],
        ["python manage.py test", "uv run manage.py check", "python3 manage.py makemigrations", "cat manage.py",
         "grep -n migrate manage.py"],
    ),
    "Verwende `uv` statt `pip`.": (["pip install x", "python3 -m pip install x"], ["uv add x", "uv sync"]),
    "`--no-verify` ist verboten.": (["git commit --no-verify -m x"], ["git commit -m x"]),
    "Führe `make deploy` niemals aus.": (["make deploy"], ["make test"]),
    "Ändere niemals `config/settings_prod.py`.": (["touch config/settings_prod.py"], ["cat config/settings_prod.py"]),
    "Die Datei `.env` darf nicht gelesen werden.": (["cat .env"], ["cat README.md"]),
    "Die Ordner `a/` und `b/` dürfen nicht geändert werden.": (["touch b/x"], ["touch c/x", "cat a/x"]),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_what_is_forbidden_is_denied_and_what_is_near_passes(sentence: str, root: Path) -> None:
    forbidden, harmless = CASES[sentence]
    assert {command: judged(sentence, root, command) for command in forbidden} == dict.fromkeys(
        forbidden, "deny"
    )
    assert {command: judged(sentence, root, command) for command in harmless} == dict.fromkeys(
        harmless, ""
    )


def test_a_command_of_a_list_that_is_not_understood_is_named() -> None:
    compiled = compile_rule("No `pnpm publish`, no `frobnicate it`.", hard=False)
    assert compiled.is_partial
    assert compiled.why.endswith("not understood, so not enforced: no `frobnicate it`")


@pytest.mark.parametrize(
    "sentence",
    [
        "Never publish in reviews: no `npm publish`, no `lerna publish`.",
        "Never deploy: no `vercel deploy`, no `make ship` unless asked.",
        "Führe niemals `make deploy` aus, wenn Tests fehlschlagen.",
        "Verwende `ruff` statt `black` in neuen Dateien.",
        "Die Datei `.env` darf nur lokal gelesen werden.",
        "Die Datei `.env` darf nicht gelesen werden, außer in Tests.",
        "`git push --force` ist auf `main` verboten.",
        "Der Befehl `git push` ist verboten, außer auf Nachfrage.",
        "Verwende `npm` nicht, sondern `pnpm`.",
    ],
)
def test_a_limited_sentence_remains_advice(sentence: str) -> None:
    assert compile_rule(sentence, hard=False).check is None


@pytest.mark.parametrize("wanted", ["./manage.py migrate", "uv run manage.py migrate"])
def test_a_recommended_way_to_run_a_script_passes(wanted: str, root: Path) -> None:
    sentence = f"Never run `python manage.py migrate`; use `{wanted}`."
    assert judged(sentence, root, wanted) == ""
    assert judged(sentence, root, "python manage.py migrate") == "deny"
