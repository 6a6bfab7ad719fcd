"""Rules about commands hold for recipes, npm scripts, and other spellings of `make` and npm."""

import json
import os
import shutil
import subprocess
from pathlib import Path, PurePosixPath

import hilum_guard
import pytest
from hilum_checks import compile_rule, judge
from hilum_guard.programs.npm_commands import complete_npm_command

from tests.support.judged_commands import judge_command
from tests.support.obedience.judging import make_tool

MAKEFILE = """\
deploy:
\techo deploying
all: deploy
again: all
rel:
\tgit push origin main
up: rel
nested:
\t$(MAKE) deploy
pub:
\tnpm publish
test: build
\tpytest -q
build:
\tpip install x
clean:
\trm -rf build
tagged:
\tgit tag v$(V)
unknown:
\t$(PYTHON) -m pytest; git -C $(DIR) describe
"""
SCRIPTS = {
    "rel": "npm publish",
    "go": "git push",
    "up": "npm run go",
    "test": "jest",
    "x": "npm run rel && npm --version",
    "postversion": "git push --follow-tags",
}
JUSTFILE = "alias d := deploy\n\ndeploy:\n    echo\n\nall: deploy\n    echo\n\ntest:\n    pytest\n"
DEPLOY, PUSH, PUBLISH = (
    "deny command make deploy",
    "deny command git push",
    "deny command npm publish",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a Makefile, npm scripts and a justfile in its index."""
    root = tmp_path_factory.mktemp("project")
    files = {
        "Makefile": MAKEFILE,
        "package.json": json.dumps({"scripts": SCRIPTS}),
        "justfile": JUSTFILE,
        "run.sh": '#!/bin/sh\nset -e\n"$@"\n',
    }
    for name, text in files.items():
        (root / name).write_text(text)
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    (root / "new.mk").write_text("include Makefile\nq: deploy\nlist: build\n")
    return root


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (DEPLOY, "gmake deploy"), (DEPLOY, "/usr/bin/gmake -s deploy"), (DEPLOY, "bash -c 'bmake deploy'"),
        (DEPLOY, "make --eval='q: deploy' q"), (DEPLOY, "make -E 'q: deploy' q"), (DEPLOY, "make -E'q: deploy' q"),
        (DEPLOY, "make --ev 'q: deploy' q"), (DEPLOY, "make --eval='q: $(X)' X=deploy q"), (DEPLOY, "make -f new.mk q"),
        (DEPLOY, "make -fnew.mk q"), (DEPLOY, "make -f new.mk"), (DEPLOY, "make"), (DEPLOY, "make all"), (DEPLOY, "make again"),
        (DEPLOY, "make nested"), (DEPLOY, "make ./deploy"), (DEPLOY, "make .DEFAULT_GOAL=deploy"),
        (DEPLOY, "gmake -C . -j 4 all"),
        (DEPLOY, "MAKEFLAGS='--eval=q:deploy' make q"), (DEPLOY, "MAKEFILES=new.mk make q"),
        (DEPLOY, "printf 'include Makefile\\nq: deploy\\n' | make -f - q"), ("deny command make build", "make -f new.mk list"),
        ("deny command just deploy", "just"), ("deny command just deploy", "just all"), ("deny command just deploy", "just d"),
        ("deny command make", "gmake"), (PUSH, "make rel"), (PUSH, "make up"), (PUSH, "gmake up"), (PUSH, "npm run go"),
        (PUSH, "npm run up"), (PUSH, "npm ru go"), (PUSH, "npm rum go"), (PUSH, "node --run go"), (PUSH, "npm version patch"),
        (PUSH, "yarn go"), (PUSH, "pnpm up"), ("deny command git tag", "make tagged V=1"),
        (PUBLISH, "npm pub"), (PUBLISH, "npm publ"), (PUBLISH, "npm --prefix . publ"), (PUBLISH, "npm run rel"),
        (PUBLISH, "npm run x"), (PUBLISH, "make pub"), (PUBLISH, "node /usr/lib/node_modules/npm/bin/npm-cli.js publish"),
        (PUBLISH, "node --no-warnings x/npm-cli.js publ"), (PUBLISH, "/usr/lib/node_modules/npm/bin/npm-cli.js publish"),
        (PUBLISH, "npx npm@latest publ"), (PUBLISH, "corepack npm publish"), (PUBLISH, "npm --tag next publ"),
        (PUBLISH, "npm --loglevel error run rel"), (PUBLISH, "deno task rel"), (PUSH, "npx run-s test go"),
        (PUSH, "npx npm-run-all 'g*'"),
        (DEPLOY, "cd missing; make -C .. again"),
        (PUBLISH, "npm stage publish"),
        (DEPLOY, "./run.sh make deploy"), (PUSH, "sh run.sh --quiet git push origin x"),
        ("deny command npm install", "npm inst left-pad"), ("deny command npm unpublish", "npm unpub x"),
    ],
)  # fmt: skip
def test_what_runs_a_forbidden_command_is_denied(line: str, command: str, project: Path) -> None:
    assert judge_command(line, command, project) == "deny"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (DEPLOY, "make test"), (DEPLOY, "make -n clean"), (DEPLOY, "MAKEFLAGS=-j4 make test"), (DEPLOY, "make unknown"),
        (DEPLOY, "just test"), (PUSH, "make unknown"), (PUSH, "npm test"), (PUSH, "make test"), (PUSH, "npm install"),
        (PUBLISH, "npm p"), (PUBLISH, "npm pack"), (PUBLISH, "npm run test"), (PUBLISH, "npm view x"), (PUSH, "npx run-s test"),
        (PUBLISH, "npm install publ"), (PUBLISH, "npm test -- publ"), (PUSH, "npm --loglevel error run test"),
        (PUBLISH, "node x.js publish"), (DEPLOY, "./run.sh make test"), (PUSH, "./run.sh pytest -q"),
        (DEPLOY, "sed -n 1,9p Makefile && make test"),
        # How the project calls its tools is not what an agent does.
        ("deny command npm", "make pub"), ("deny command pytest", "make test"), ("deny command pip install", "make build"),
        ("deny command rm -rf", "make clean"), ("deny command make build", "make test"),
    ],
)  # fmt: skip
def test_other_recipes_are_free(line: str, command: str, project: Path) -> None:
    assert judge_command(line, command, project) == ""


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (DEPLOY, "sed -i 's/^test:/test: deploy/' Makefile && make test"), (PUSH, "cp x package.json; npm test"),
        (PUSH, "npm run $X"), (PUSH, "make \"$T\""), (DEPLOY, "make \"$T\""),
        (DEPLOY, "make -f <(printf 'include Makefile\\nq: deploy\\n') q"),
    ],
)  # fmt: skip
def test_an_unknown_target_is_asked(line: str, command: str, project: Path) -> None:
    assert judge_command(line, command, project) == "ask"


@pytest.mark.parametrize("number", [20, 900])
def test_a_recipe_is_read_behind_many_goals(number: int, tmp_path: Path) -> None:
    """Prerequisites without recipes of their own use up no limit."""
    goals = [f"goal{each}" for each in range(number)]
    text = f"all: {' '.join(goals)} last\n\tgit push\n{' '.join(goals)}:\nlast: deploy\n\techo\n"
    (tmp_path / "Makefile").write_text(text)
    assert judge_command(PUSH, "make", tmp_path) == "deny"
    assert judge_command(DEPLOY, "make", tmp_path) == "deny"


def test_the_recipes_of_many_goals_are_read(tmp_path: Path) -> None:
    goals = [f"goal{each}" for each in range(20)]
    recipes = "".join(f"{goal}:\n\techo {goal}\n" for goal in goals)
    (tmp_path / "Makefile").write_text(f"all: {' '.join(goals)} last\n{recipes}last:\n\tgit push\n")
    assert judge_command(PUSH, "make", tmp_path) == "deny"


class Ruled:
    """A sentence as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=True, folder=PurePosixPath(".")).check


@pytest.mark.parametrize(
    ("sentence", "command", "kind"),
    [
        ("Never run `npm publish`; use `make pub` instead.", "make pub", ""),
        ("Never run `npm publish`; use `make pub` instead.", "npm run rel", "deny"),
        ("Never push.", "npm run go", "deny"),
        ("Never push without my approval.", "make up", "ask"),
        ("Never run `make`, use `gmake` instead.", "gmake test", ""),
        ("Never run `make`, use `gmake` instead.", "make test", "deny"),
        ("Never run `make`, use `just` instead.", "gmake test", "deny"),
    ],
)
def test_what_a_sentence_recommends_is_free(
    sentence: str, command: str, kind: str, project: Path
) -> None:
    rule = Ruled(sentence)
    assert rule.check is not None
    arguments = json.dumps({"command": command})
    found = judge([rule], arguments, make_tool("run_terminal_cmd"), project)
    assert (found.kind if found else "") == kind


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_abbreviations_mean_what_npm_says() -> None:
    """The installed npm decides; a newer one may have further commands."""
    root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=True)
    listed = Path(root.stdout.strip(), "npm/lib/utils/cmd-list.js")
    if not listed.is_file():
        pytest.skip("this npm keeps its commands elsewhere")
    words = "pub publ publish rum run-sc inst i t tst unpub vers up".split()
    code = (
        "const {deref} = require(process.argv[1]);"
        "console.log(JSON.stringify(process.argv.slice(2).map(word => deref(word) || word)))"
    )
    done = subprocess.run(
        ["node", "-e", code, str(listed), *words], capture_output=True, text=True, check=True
    )
    meant = [word.replace("run-script", "run") for word in json.loads(done.stdout)]
    assert [complete_npm_command(word) for word in words] == meant


@pytest.mark.skipif(shutil.which("make") is None, reason="needs GNU make")
@pytest.mark.parametrize("command", ["make", "make again", "make -f new.mk q", "make ./deploy"])
def test_make_builds_the_goals_that_the_guard_names(command: str, project: Path) -> None:
    """What the guard derives is what the program does."""
    done = subprocess.run(
        [*command.split(), "-n"], cwd=project, capture_output=True, text=True, check=True
    )
    assert "echo deploying" in done.stdout
    implied = hilum_guard.judge_command(command, workspace=project).implied
    assert ("make", "deploy") in [each.words for each in implied]
