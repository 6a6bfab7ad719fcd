"""Commands that new Python and JavaScript code assembles are denied, or need approval."""

import subprocess
from pathlib import Path

import pytest
from hilum_guard.commands import loaded_files
from hilum_guard.commands.python_calls import find_started
from hilum_guard.commands.shell_words import UNKNOWN

from tests.support.judged_commands import judge_command

PUSH = "deny command git push"
START = "import os, subprocess, sys\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository without files in its index."""
    folder = tmp_path_factory.mktemp("assembled").resolve()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def judge_code(code: str, helper: str, root: Path) -> list[str]:
    """Return how code is judged as a module and as a script; it may import the module `u`."""
    (root / "u.py").write_text(START + helper)
    (root / "v.py").write_text(START + code)
    return [judge_command(PUSH, each, root) for each in ('python3 -c "import v"', "python3 v.py")]


@pytest.mark.parametrize(
    "code",
    [
        "x = 'status'\nx = 'push'\nsubprocess.run(f'git {x}', shell=True)",
        "w = ['push']\nw.insert(0, 'git')\nsubprocess.run(w)",
        "c = ['git']\nif sys.argv:\n    c.append('push')\nelse:\n    c.append('status')\nsubprocess.run(c)",
        "c = ['git']\nif sys.argv:\n    c.append('status')\nelse:\n    c.append('push')\nsubprocess.run(c)",
        "c = ['git']\nc = c + ['push']\nsubprocess.run(c)",
        "def f():\n    c = ['git']\n    c.append('push')\n    c += ['-f']\n    subprocess.run(c)",
        "from subprocess import *\nrun(['git', 'push'])", "from os import *\nsystem('git push')",
        "from os import system as s\ns('git push')", "from os import system\ns = system\ns('git push')",
        "r = subprocess\nr.run(['git', 'push'])",
        "class A:\n  def __init__(self): self.go = subprocess.run\n  def f(self): self.go(['git', 'push'])",
        "list(map(os.system, ['ls', 'git push']))", "list(map(subprocess.run, [['git', 'push']]))",
        "subprocess.Popen(['x', 'push'], executable='git')",
        "for i in range(9):\n  c = ['git', 'push']\n  c.append('-v')\n  subprocess.run(c)",
    ],
)  # fmt: skip
def test_values_and_names_are_followed(code: str, root: Path) -> None:
    assert judge_code(code, "", root) == ["deny", "deny"]


@pytest.mark.parametrize(
    ("helper", "code"),
    [
        ("from subprocess import run as go", "from u import go\ngo(['git', 'push'])"),
        ("from subprocess import run", "from u import *\nrun(['git', 'push'])"),
        ("from subprocess import run as go", "import u\nu.go(['git', 'push'])"),
        ("go = os.system", "import u\nu.go('git push')"),
        ("", "import u\nu.subprocess.run(['git', 'push'])"),
        ("C = ['git', 'push']", "from u import C\nsubprocess.run(C)"),
    ],
)
def test_functions_and_values_of_other_modules_are_followed(
    helper: str, code: str, root: Path
) -> None:
    assert judge_code(code, helper, root) == ["deny", "deny"]


@pytest.mark.parametrize(
    "code",
    [
        "c = ['git', 'status']\nc[1] = 'push'\nsubprocess.run(c)",
        "c = ['git', 'status']\nc.pop()\nc.append('push')\nsubprocess.run(c)",
        "c = ['git']\nc = [*c, 'push']\nsubprocess.run(c)", "c = ['git']\nd = c\nd.append('push')\nsubprocess.run(c)",
        "c = ['git']\nd = {'c': c}\nd['c'].append('push')\nsubprocess.run(c)",
        "def f(l): l.append('push')\nc = ['git']\nf(c)\nsubprocess.run(c)",
        "a = ['git']\nb = a + ['push']\na = b\nsubprocess.run(a)",
        "c = ['git']\nfor x in sys.argv: c.append(x)\nsubprocess.run(c)",
        "c = ['git']\n[c.append(x) for x in open('f')]\nsubprocess.run(c)",
        "c = ['git']\nlist.append(c, input())\nsubprocess.run(c)",
        "import u\nu.C.append(chr(3))\nsubprocess.run(u.C)", "cmds = {'a': 'push'}\nsubprocess.run(['git', cmds['a']])",
        "m = __import__('subprocess')\nm.run(['git', 'pu' 'sh'])", "e = exec\ne('x')", "from builtins import exec as e\ne('x')",
        "import importlib\nimportlib.import_module('subprocess').run(['git', 'x'])",
        "from os import system\nd = [system]\nd[0](input())", "from os import system\nprint(map(system, input()))",
        "import operator\noperator.methodcaller('sys' + 'tem', 'x')(os)", "import sh\nsh.git('push')",
        "# coding: unicode_escape\n# \\x0aimport os", "import runpy\nrunpy.run_path('a' + '.txt')",
        "from importlib.machinery import SourceFileLoader\nSourceFileLoader('m', input()).load_module()",
        "import pickle\npickle.loads(b'cos')", "import marshal\nmarshal.loads(open('x', 'rb').read())",
    ],
)  # fmt: skip
def test_what_is_not_known_is_asked(code: str, root: Path) -> None:
    judged = judge_code(code, "C = ['git']", root)
    assert judged[0] == "ask"
    # A script is also searched for literal text.
    assert judged[1] in ("ask", "deny")


@pytest.mark.parametrize(
    "code",
    [
        "c = ['git', 'status']\nif sys.argv: c.append('-s')\nsubprocess.run(c)",
        "c = ['pytest']\nif sys.argv: c.append('-s')\nc.extend(sys.argv)\nsubprocess.run(c)",
        "def a():\n  cmd = ['git', 'log']\n  subprocess.run(cmd)\ndef b():\n  cmd = ['ls']\n  cmd.insert(0, 'x')",
        "import re\nx = re.compile('a')\nrows = []\nrows.insert(0, 'push')\nd = {}\nd['git'] = 'push'",
        "def run(cmd, retry=2):\n  subprocess.run(cmd)\n  run(cmd, retry - 1)\nrun(['git', 'status'])",
        "import types, pickle, operator, importlib\npickle.load(open('x'))\noperator.itemgetter(1)\n"
        "class A(types.SimpleNamespace): pass\nimportlib.import_module('json')",
        "# coding: utf-8\nsubprocess.run(['git', 'status'])",
    ],
)  # fmt: skip
def test_other_changes_of_lists_are_free(code: str, root: Path) -> None:
    assert judge_code(code, "", root)[0] == ""


def test_values_beyond_the_limit_are_unknown() -> None:
    lines = [f"x = 's{number}'" for number in range(20)]
    text = "\n".join(["import os", *lines, "os.system(f'git {x}{x}')"])
    assert find_started((text,)).texts[-1] == UNKNOWN
    words = find_started(
        (text.replace("os.system(f'git {x}{x}')", "os.execvp('git', ['git', x])"),)
    )
    assert any(UNKNOWN in word for each in words.words for word in each)


def test_a_command_that_loads_too_many_files_is_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_files, "MAX_FILES", 20)
    folder = root / "many"
    folder.mkdir()
    for number in range(30):
        (folder / f"m{number}.py").write_text("")
    (folder / "all.py").write_text("".join(f"import m{number}\n" for number in range(30)))
    assert judge_command(PUSH, 'cd many && python3 -c "import all"', root) == "ask"
    assert judge_command(PUSH, 'cd many && python3 -c "import m1"', root) == ""


def test_a_search_for_tests_that_is_cut_short_is_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_files, "MAX_WALKED", 20)
    folder = root / "wide"
    folder.mkdir()
    for number in range(30):
        (folder / f"data{number}").write_text("")
    assert judge_command(PUSH, "pytest wide", root) == "ask"


def test_a_file_of_any_name_that_code_runs_is_read(root: Path) -> None:
    (root / "data.txt").write_text("import os\nos.system('git push')\n")
    for call in ("runpy.run_path('data.txt')", "SourceFileLoader('m', 'data.txt').load_module()"):
        (root / "loader.py").write_text(
            f"import runpy\nfrom importlib.machinery import SourceFileLoader\n{call}\n"
        )
        assert judge_command(PUSH, 'python3 -c "import loader"', root) == "deny"


@pytest.mark.parametrize(
    "code",
    [
        "const m = 'child' + '_process'; require(m)['ex' + 'ecSync']('x')",
        "require(`child${'_'}process`)['ex' + 'ecSync']('x')",
        "require('\\x63hild_process')['ex' + 'ecSync']('x')",
        "const r = require; r('child' + '_process')",
        "(() => {}).constructor(atob('eA=='))()",
        "require('vm').runInThisContext(atob('eA=='))",
        "process.getBuiltinModule('child' + '_process')",
        "\\u0065val(atob('eA=='))",
    ],
)
def test_modules_of_javascript_that_hide_what_they_load_are_asked(code: str, root: Path) -> None:
    (root / "p.js").write_text(code)
    assert judge_command(PUSH, "node -e \"require('./p.js')\"", root) == "ask"


@pytest.mark.parametrize(
    "code",
    ["const fs = require('node:fs'); import('./q.mjs')", "if (require.main === module) console.log('\\u00e9')"],
)  # fmt: skip
def test_other_modules_of_javascript_are_free(code: str, root: Path) -> None:
    (root / "p.js").write_text(code)
    assert judge_command(PUSH, "node -e \"require('./p.js')\"", root) == ""


@pytest.mark.parametrize(
    "text",
    [
        "if a; then x=push; else x=status; fi; git $x", "if a; then x=push; fi; git ${x}", "x=push; a && x=status; git $x",
        "case $1 in a) x=push;; b) x=status;; esac; git $x", "x=push; while a; do x=status; done; git $x",
        "x=push; for y in a b; do x=status; done; git $x", "x=abc; x[0]=push; git $x",
        "if a; then x=git; y=push; else x=ls; y=-l; fi; $x $y",
        "if a; then GIT=git; else GIT=echo; fi; if b; then V=push; else V=log; fi; $GIT $V",
    ],
)  # fmt: skip
def test_variables_have_the_values_of_all_branches(text: str, root: Path) -> None:
    (root / "s.sh").write_text(text)
    assert judge_command(PUSH, "sh s.sh", root) == "deny"
    assert judge_command(PUSH, text, root) == "deny"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a; then x=status; else x=log; fi; git $x", ""), ("if a; then x=push; fi; x=status; git $x", ""),
        ("if a; then x=push; else x=status; fi; echo $x", ""), ("x=status && git $x", ""),
        ("declare -n r=x; x=status; r=push; git $x", "ask"),
    ],
)  # fmt: skip
def test_other_variables_are_free(text: str, expected: str, root: Path) -> None:
    assert judge_command(PUSH, text, root) == expected


@pytest.mark.parametrize(
    "code",
    [
        "let x = 'status'; if (1) x = 'push'; cp.spawnSync('git', [x])",
        "const a = ['x']; a[0] = 'push'; cp.spawnSync('git', a)",
        "cp.spawnSync('git', process.argv.slice(2))", "const o = {c: 'push'}; cp.execFileSync('git', [o.c])",
    ],
)  # fmt: skip
def test_lists_of_words_in_javascript_may_be_unknown(code: str, root: Path) -> None:
    (root / "p.js").write_text(f"const cp = require('child_process'); {code}")
    for command in ("node p.js", "node -e \"require('./p.js')\""):
        assert judge_command(PUSH, command, root) in ("ask", "deny")
    (root / "p.js").write_text("const cp = require('child_process'); cp.spawnSync('ls', [f])")
    assert judge_command(PUSH, "node p.js", root) == ""


def make_tangle(modules: int, functions: int) -> tuple[str, ...]:
    """Return modules whose functions call each other with their own parameters, in all orders."""
    texts = []
    for module in range(modules):
        lines = ["import subprocess"]
        lines += [f"from m{other} import *" for other in range(modules) if other != module]
        for number in range(functions):
            lines.append(f"def f{module}_{number}(a, b, c, d=None):")
            lines += [
                f"    f{other}_{called}(b + a, c or d, [*a, b], d=a)"
                for other in range(modules)
                for called in range(functions)
            ]
            lines.append("    subprocess.run([a, b, *c])")
        texts.append("\n".join(lines))
    return tuple(texts)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("modules", "functions"), [(1, 12), (40, 1), (6, 5)])
def test_code_whose_values_cannot_be_followed_is_unknown_soon(modules: int, functions: int) -> None:
    """Without a limit, each of these would take years."""
    assert find_started(make_tangle(modules, functions)).is_unknown


def test_a_chain_of_names_through_many_modules_is_followed() -> None:
    texts = ["import os\ngo0 = os.system"]
    texts += [f"from m{n} import *\ngo{n + 1} = go{n}\n" for n in range(60)]
    texts += ["from m60 import go60\ngo60('git push')"]
    assert find_started(tuple(texts)).texts == ("git push",)
