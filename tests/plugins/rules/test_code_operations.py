"""Methods of texts and lists are no file operations, and code that names its files hides none."""

import json
from pathlib import Path

import pytest
from hilum import Tool
from hilum_checks import compile_lines, judge


class Ruled:
    """A rule with one line in the notation."""

    sentence = "The rule."
    path = "AGENTS.md"
    line = 1

    def __init__(self, line: str) -> None:
        self.check = compile_lines([line])[0].check


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/a.bin").write_text("")
    (tmp_path / "README.md").write_text("x\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/core.py").write_text("x = 1\n")
    return tmp_path


LINES = (
    "deny change, delete models/** except models/tmp/**",
    "deny delete models/",
    "deny write *.tfstate",
    "deny create **/*.rst",
)


def judged(command: str, root: Path, *lines: str) -> str:
    tool = Tool("run_terminal_cmd", "", lambda: "", risk="execute")
    found = judge([Ruled(line) for line in lines], json.dumps({"command": command}), tool, root)
    return found.kind if found else ""


def run(code: str, program: str) -> str:
    return f"{program} - <<'EOF'\n{code}\nEOF"


METHODS = [
    "print('a.b'.replace('.', '/'))",
    "print('models/a.bin'.replace('/', '.', 1), ', '.join(['a']))",
    "import datetime as d; print(f'{d.date.today().replace(day=1)}')",
    "l = [1, 2]; l.remove(1); print('a' + str(l))",
    "l = 'a b'.split(); l.remove('a'); print('-'.join(l))",
    "d = {'a': 1}; e = d.copy(); print(f'{e}')",
    "import copy; print(f'{copy.deepcopy([1])}')",
    "import pandas as pd; df = pd.read_csv('models/a.csv'); print(f\"{df.rename(columns={'a': 'b'})}\")",
    "import dataclasses; print(f'{dataclasses.replace(x, y=1)}')",
    "l = []; l.append('models/a.bin'); print('a' + l[0])",
    "import sys; sys.stdout.write('models/a.bin' + 'x')",
    "print('models/a.bin'.removeprefix('models/') + 'x')",
    "removed = [x for x in 'ab' if x > 'a']; print('moved ' + removed[0])",
    "import json; print(json.dumps({'models/a.bin': 1}) + 'x')",
]
EDITS = [
    "s = open('README.md').read(); open('README.md', 'w').write(s + 'x')",
    "s = open('README.md').read(); open('README.md', 'w').write(f'{s}x')",
    "from pathlib import Path; p = Path('README.md'); Path('X').write_text(p.read_text() + 'x')",
    "from pathlib import Path; p = Path('README.md'); p.write_text(p.read_text().replace('x', 'y'))",
    "import pathlib\nfor p in ('README.md', 'src/core.py'):\n    q = pathlib.Path(p)\n    q.write_text(q.read_text() + 'x')",
    "with open('X', 'w') as fh:\n    fh.write('a' + str(1))",
    "import json\nd = json.load(open('a.json'))\nwith open('a.json', 'w') as f:\n    json.dump(d, f)\nprint(f'{d}')",
    "import csv\nwith open('a.csv', 'w') as f:\n    w = csv.writer(f)\n    w.writerow(['a' + 'b'])",
    "import os; os.rename('README.md', 'LIESMICH.md'); print('moved ' + os.getcwd())",
    "import re; s = open('README.md').read(); s = re.sub('a', 'b', s); open('README.md', 'w').write('x' + s)",
]
FORBIDDEN = [
    "import os; os.remove('models/a.bin')",
    "import os; os.replace('models/a.bin', '/tmp/x')",
    "from pathlib import Path; Path('models/a.bin').unlink()",
    "from pathlib import Path; Path('models/a.bin').replace('x')",
    "from pathlib import Path; Path('models/a.bin').rename('x')",
    "from pathlib import Path\nfor p in ['models/a.bin']:\n    Path(p).unlink()",
    "import shutil; shutil.rmtree('models')",
    "import pathlib; pathlib.os.remove('models/a.bin')",
    "import os as o; o.replace('models/a.bin', '/tmp/x')",
    "from os import replace; replace('models/a.bin', '/tmp/x')",
    "import os; m = os; m.replace('models/a.bin', '/tmp/x')",
    "import os; [os][0].replace('models/a.bin', '/tmp/x')",
    "import subprocess; subprocess.run(['rm', 'models/a.bin'])",
    "import os; os.system('rm models/a.bin')",
    "import os; f = os.remove; f('models/a.bin')",
    "import os; list(map(os.remove, ['models/a.bin']))",
    "import sys, os; sys.modules['os'].replace('models/a.bin', '/tmp/x')",
]
HIDDEN = [
    "import os; getattr(os, 'replace')('models/a.bin', '/tmp/x')",
    "import os; os.remove('mod' + x + '/a.bin')",
    "import os; os.remove(f'{x}/a.bin')",
    "from pathlib import Path; Path('mod' + x).unlink()",
    "import os\nfor p in os.listdir('.'):\n    os.remove(p)",
    "from pathlib import Path\np = Path('README.md')\np = Path('mod' + x)\np.unlink()",
    "from pathlib import Path\np = 'README.md'\np += 'x' + y\nPath(p).unlink()",
    "import os\nos.chdir('mod' + x)\nos.remove('a.bin')",
    "import os\nmatch 'mod' + x:\n    case p:\n        os.remove(p)",
    "import os, glob\nfor p in glob.glob('m*/*'):\n    os.unlink(p)",
    "import os; os.replace('README.md', 'x' + y)",
    "import shutil\nfor p in ['README.md', 'mod' + x]:\n    shutil.move(p, 'q')",
]


@pytest.mark.parametrize("code", METHODS + EDITS)
def test_harmless_python_passes(code: str, root: Path) -> None:
    assert judged(run(code, "python3"), root, *LINES) == ""


def test_the_mode_is_no_part_of_a_new_path(root: Path) -> None:
    line = "deny create *.md"
    assert judged(run(EDITS[0], "python3"), root, line) == ""
    assert judged(run("open('NEW.md', 'w').write('x')", "python3"), root, line) == "deny"
    joined = "import os; open(os.path.join('models', 'w'), 'w').write('x')"
    assert judged(run(joined, "python3"), root, "deny write models/w") == "deny"


def test_a_launcher_runs_the_same_code(root: Path) -> None:
    for program in ("uv run python", "poetry run python3"):
        assert judged(f'{program} -c "{METHODS[0]}"', root, *LINES) == "", program
        code = "import os; os.remove('models/a.bin')"
        assert judged(f'{program} -c "{code}"', root, "deny delete models/") == "deny", program


@pytest.mark.parametrize("code", FORBIDDEN)
def test_a_named_file_is_protected(code: str, root: Path) -> None:
    assert judged(run(code, "python3"), root, "deny delete models/") == "deny"


@pytest.mark.parametrize("code", HIDDEN)
def test_a_hidden_path_needs_approval(code: str, root: Path) -> None:
    assert judged(run(code, "python3"), root, "deny delete models/") != ""


def test_every_mode_of_writing_counts(root: Path) -> None:
    for mode in ("'w'", "'w' if x else 'a'", "mode='r+'"):
        code = f"open('models/a.bin', {mode})"
        assert judged(run(code, "python3"), root, "deny write models/") == "deny", mode


SCRIPTS = [
    "console.log('a-b'.replace('-', '_'))",
    "console.log(['models/a.bin'].map(x => x + '!').join('-'))",
    "console.log(require('./package.json').version.replace('1', '2') + 'x')",
    "const fs = require('fs'); fs.writeFileSync('a.txt', fs.readFileSync('a.txt', 'utf8').replace('a', 'b') + 'x')",
]
FORBIDDEN_SCRIPTS = [
    "require('fs').unlinkSync('models/a.bin')",
    "const fs = require('fs'); fs.rmSync('models/a.bin')",
    "fs.renameSync('models/a.bin', 'x')",
    "require('child_process').execSync('rm models/a.bin')",
    "const fs = require('fs'); fs.unlinkSync('mod' + x)",
    "const fs = require('fs'); ['a'].forEach(x => fs.unlinkSync(`${x}/a.bin`))",
    "process.binding('fs').unlink('mod' + x)",
    "(()=>{})['const' + 'ructor']('return process')().mainModule.require('fs').unlinkSync('mod' + x)",
]


@pytest.mark.parametrize("code", SCRIPTS)
def test_harmless_javascript_passes(code: str, root: Path) -> None:
    assert judged(run(code, "node"), root, *LINES) == ""


@pytest.mark.parametrize("code", FORBIDDEN_SCRIPTS)
def test_javascript_that_deletes_is_refused(code: str, root: Path) -> None:
    assert judged(run(code, "node"), root, "deny delete models/") != ""


PRINT = r"deny content /\bprint\(/ except tests/**"


def test_a_function_is_no_file_that_gets_its_text(root: Path) -> None:
    for code in (METHODS[0], "print(1); open('/tmp/x', 'w')"):
        assert judged(f'python3 -c "{code}"', root, PRINT) == "", code
    assert (
        judged("python3 -c \"open('src/core.py', 'w').write('print(1)')\"", root, PRINT) == "deny"
    )
    assert judged("python3 -c \"open('print', 'w').write('print(1)')\"", root, PRINT) == "deny"
