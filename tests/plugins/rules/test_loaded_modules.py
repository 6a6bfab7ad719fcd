"""Rules hold for the arguments of scripts, and for the new modules and tests that a command loads."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

COMMIT = "deny command git commit"
OLD = (1_700_000_000, 1_700_000_000)
# The project's own files, which are in Git's index.
OWN = {
    "Makefile": "test:\n\tpytest -q\n",
    "app/__init__.py": "",
    "app/core.py": "import os\ndef run(): os.system('git commit -m x')\n",
    "app/main.py": "import helper\n",
    "tests/test_core.py": "from app.core import run\n",
    "run.sh": '#!/bin/sh\nset -e\n"$@"\n',
}
# Files that an agent has written.
NEW = {
    "lib.sh": 'go() { git "$@"; }\n',
    "all.sh": 'git "$@"\n',
    "m.py": "import os\nos.system('git commit -qm x')\n",
    "pkg/__init__.py": "",
    "pkg/__main__.py": "import subprocess as s\ns.run(['git', 'commit'])\n",
    "helper.py": "from subprocess import run\ndef f(*a): run(['git', *a])\nf('commit', '-m', 'x')\n",
    "main.py": "import helper\n",
    "m2.py": "import os\ndef test(): os.system('git commit -m x')\n",
    "new/test_a.py": "import os\ndef test_a():\n    os.system('git commit -qm x')\n",
    "site/sitecustomize.py": "import os\nos.system('git commit -m x')\n",
    "p.js": "require('child_process').execSync('git commit -m x')\n",
    "q.js": "require('./p.js')\n",
    "q.test.js": "import './p.js'\n",
    "mk.py": "open('lib/f.py', 'w').write('x')\n",
}


def make_project(root: Path) -> Path:
    for name, text in OWN.items():
        put(root, name, text)
        os.utime(root / name, OLD)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    return root


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which nothing is new."""
    return make_project(tmp_path_factory.mktemp("own").resolve())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with new files."""
    root = make_project(tmp_path_factory.mktemp("project").resolve())
    for name, text in NEW.items():
        put(root, name, text)
    return root


@pytest.mark.parametrize(
    "text",
    [
        'git "$@"', "git $*", 'exec git "$@"', 'env git "${@}"', 'git -C . "$@"', 'f(){ git "$@"; }; f "$@"',
        'for a in "$@"; do git $a -m x; done', '. ./lib.sh; go "$@"', ". ./all.sh", 'a=("$@"); git "${a[@]}"',
        'set -- "$@" -m x; git "$@"', 'if [ "$1" = -x ]; then shift; fi; git "$@"',
        'while [ $# -gt 9 ]; do shift; done; git "$@"',
        'case $1 in x) shift 2;; *) git "$@";; esac',
    ],
)  # fmt: skip
def test_a_script_sees_its_arguments(text: str, project: Path) -> None:
    put(project, "t.sh", f"{text}\n")
    assert judge_command(COMMIT, "sh t.sh commit --allow-empty -qm x", project) == "deny"
    assert judge_command(COMMIT, "./t.sh commit", project) == "deny"
    assert judge_command(COMMIT, "sh t.sh status", project) == ""


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ('shift; git "$@"', "sh s.sh x commit"), ('shift 2; git "$@"', "sh s.sh x y commit"),
        ('while [ "$1" = -v ]; do shift; done; git "$@"', "sh s.sh -v -v commit"),
        ('if [ -n "$1" ]; then shift; fi; git "$@"', "sh s.sh x commit"),
    ],
)  # fmt: skip
def test_a_script_may_remove_arguments(text: str, call: str, project: Path) -> None:
    put(project, "s.sh", f"{text}\n")
    assert judge_command(COMMIT, call, project) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        ". ./lib.sh; go commit", "source lib.sh && go commit -m x", "eval 'go() { git \"$@\"; }'; go commit",
        "printf 'git \"$@\"' > w.sh; sh w.sh commit",
    ],
)  # fmt: skip
def test_functions_of_sourced_files_are_known(command: str, project: Path) -> None:
    assert judge_command(COMMIT, command, project) == "deny"


@pytest.mark.parametrize("command", ["./run.sh pytest -q", ". ./lib.sh; go status", ". ./lib.sh"])
def test_other_scripts_are_free(command: str, project: Path) -> None:
    put(project, "new/test_a.py", "")
    put(project, "q.test.js", "")
    try:
        assert judge_command(COMMIT, command, project) == ""
    finally:
        put(project, "new/test_a.py", NEW["new/test_a.py"])
        put(project, "q.test.js", NEW["q.test.js"])


@pytest.mark.parametrize(
    "command",
    [
        "python3 m.py", 'python3 -c "import m"', "python3 -m m", "python3 -Bm m", "python3 -m pkg", "python3 pkg",
        "python3 main.py", "python3 app/main.py", "python3 -m app.main", "python3 -m unittest m2",
        "python3 -m unittest m2.A.test",
        "python3 -m pytest new/test_a.py", "pytest new", "pytest", "uv run pytest", "pytest -p m tests", "make test",
        "PYTHONPATH=site python3 -c 1", "PYTHONPATH=site pytest tests", "coverage run main.py", "python3 -m cProfile main.py",
        "python3 - <<E\nimport m\nE", "cd new && pytest",
        "cd app && python3 -c \"import sys; sys.path.append('..'); import m\"",
        "node -e \"require('./p.js')\"", "node q.js", "node -r ./p.js -e 1", "node --test", "npx vitest", "npx jest q.test.js",
        "python3 -c \"import runpy; runpy.run_path('m.py')\"",
    ],
)  # fmt: skip
def test_new_modules_that_a_command_loads_are_read(command: str, project: Path) -> None:
    assert judge_command(COMMIT, command, project) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "pytest", "make test", "python3 -m pytest -q tests", "python3 -m unittest discover -s tests",
        "python3 -m json.tool Makefile",
        "python3 -c 'import app.core'", "python3 -c 'import json, m'", "node -e 1", "npx vitest", "./run.sh pytest",
    ],
)  # fmt: skip
def test_the_projects_own_tests_are_free(command: str, own: Path) -> None:
    for line in (COMMIT, "deny create lib/**", "deny write gen/**", "deny host api.example.com"):
        assert judge_command(line, command, own) == ""


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("def run(cmd): subprocess.run(cmd)", "from u import run\nrun(['git', 'commit'])"),
        ("def run(*cmd): subprocess.run(['git', *cmd])", "from u import run\nrun('commit')"),
        ("class R:\n  def go(self, cmd): subprocess.run(cmd)", "from u import R\nR().go(['git', 'commit'])"),
        ("CMD = ['git', 'commit']", "from u import CMD\nsubprocess.run(CMD)"),
        ("", "cmd = ['git']\ncmd += ['com' + 'mit']\nsubprocess.run(cmd)"),
        ("", "s = os.system\ns('git commit')"),
        ("", "os.execvp('git', ['git', 'commit'])"),
        ("", "os.spawnlp(os.P_WAIT, 'git', 'git', 'commit')"),
        ("", "import asyncio\nasync def f(): await asyncio.create_subprocess_exec('git', 'commit')"),
        ("", "x = 'commit'\nsubprocess.run(f'git {x}', shell=True)"),
        ("", "import ctypes\nctypes.CDLL(None).system(b'git commit')"),
        ("", "import pytest\n@pytest.mark.parametrize('c', [['git', 'commit']])\ndef test_a(c): subprocess.run(c)"),
        ("", "import pytest\n@pytest.fixture\ndef c(): return ['git', 'commit']\ndef test_a(c): subprocess.run(c)"),
    ],
)  # fmt: skip
def test_commands_of_modules_are_followed(module: str, code: str, own: Path) -> None:
    assert load(module, code, own) == "deny"


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(sys.argv[1:])",
        "sys.modules['o' + 's'].system('x')", "sys.modules['os'].system(input())",
        "os.system(open('x').read())", "getattr(os, 'sys' + 'tem')('x')",
        "exec(open('x').read())",
        "subprocess.run('git {}'.format(input()), shell=True)", "def f(c): subprocess.run(c)\nfor x in (f,): x(['git'])",
    ],
)  # fmt: skip
def test_commands_that_modules_assemble_are_asked(code: str, own: Path) -> None:
    assert load("", code, own) == "ask"


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("", '"""Not git commit."""\nimport re\nx = re.compile("git commit")'),
        ("def run(cmd): subprocess.run(cmd)", "from u import run\nrun(['ls', '-l'])"),
        ("def run(*cmd, **k): subprocess.run(['git', *cmd], **k)", "from u import run\nrun('status', cwd='x')"),
        ("", "def test(tmp_path): subprocess.run(['git', 'commit'], cwd=tmp_path)"),
        ("", "subprocess.run([sys.executable, '-m', 'app', f'{os.name}'])"),
        ("", "from unittest import mock\nwith mock.patch('subprocess.run') as r: r.assert_called_with(['git', 'commit'])"),
        ("", "p = subprocess.Popen(['ls'])\nassert isinstance(p, subprocess.Popen)"),
        ("", "import importlib.metadata\nimportlib.metadata.version('x')"),
        ("", "sys.modules.pop('x', None)\nprint(sys.modules[__name__])"),
        ("class R:\n  def go(self): subprocess.run(['ls', f'{self}'])", "from u import R\nR().go()"),
    ],
)  # fmt: skip
def test_modules_that_start_other_programs_are_free(module: str, code: str, own: Path) -> None:
    assert load(module, code, own) == ""


def load(module: str, code: str, root: Path) -> str:
    """Return how a command is judged that imports a new module, which may import another."""
    start = "import os, subprocess, sys\n"
    put(root, "u.py", start + module)
    put(root, "v.py", start + code)
    try:
        return judge_command(COMMIT, 'python3 -c "import v"', root)
    finally:
        (root / "u.py").unlink()
        (root / "v.py").unlink()


@pytest.mark.parametrize("command", ["python3 mk.py", "python3 -c 'import mk'", "python3 -m mk"])
def test_files_that_modules_write_are_judged(command: str, project: Path) -> None:
    assert judge_command("deny create lib/**", command, project) == "deny"
    assert judge_command("deny create other/**", command, project) == ""


@pytest.mark.parametrize(
    ("name", "code", "command"),
    [
        ("setup.py", "import os\nos.system('git commit')\n", "pip install -e ."),
        ("setup.py", "import os\nos.system('git commit')\n", "uv pip install ."),
        ("setup.py", "import os\nos.system('git commit')\n", "python3 -m build"),
        ("vitest.config.js", "require('child_process').execSync('git commit')\n", "npx vitest"),
    ],
)
def test_files_that_tools_load_by_name_are_read(
    name: str, code: str, command: str, own: Path
) -> None:
    put(own, name, code)
    try:
        assert judge_command(COMMIT, command, own) == "deny"
        assert judge_command(COMMIT, "pip install requests", own) == ""
    finally:
        (own / name).unlink()
    assert judge_command(COMMIT, command, own) == ""


def test_a_test_may_write_into_its_own_folder(own: Path) -> None:
    text = "def test(tmp_path):\n    (tmp_path / 'lib' / 'a.py').write_text(f'{1}')\n"
    put(own, "tests/test_new.py", text)
    try:
        assert judge_command("deny create lib/**", "pytest", own) == ""
    finally:
        (own / "tests/test_new.py").unlink()


def test_a_module_that_cannot_be_read_is_asked_about(own: Path) -> None:
    put(own, "big.py", "# x\n" * 60_000)
    try:
        assert judge_command(COMMIT, "python3 -c 'import big'", own) == "ask"
        assert judge_command(COMMIT, "python3 big.py", own) == "ask"
    finally:
        (own / "big.py").unlink()
