"""Code that only reads a file of a rule about writing is free; code that may write it is not."""

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
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor/x.py").write_text("x = 1\n")
    return tmp_path


def judged(command: str, root: Path, line: str = "deny write config.json, vendor/") -> str:
    tool = Tool("run_terminal_cmd", "", lambda: "", risk="execute")
    found = judge([Ruled(line)], json.dumps({"command": command}), tool, root)
    return found.kind if found else ""


def python(code: str) -> str:
    return f"python3 - <<'EOF'\n{code}\nEOF"


READS = [
    "import json; print(json.dumps(json.load(open('config.json'))))",
    "import ast; print(ast.dump(ast.parse(open('vendor/x.py').read())))",
    "import shutil; shutil.copy('vendor/x.py', '/tmp/x9.py')",
    "import sys; sys.path.append('vendor'); import x; x.save()",
    "import json\nwith open('config.json') as f:\n    data = json.load(f)\njson.dump(data, open('out.json', 'w'))",
    "import json\nf = open('config.json')\ndata = json.load(f)\nf.close()\nopen('out.txt', 'w').write(str(data))",
    "for line in open('vendor/x.py'):\n    print(line.replace('a', 'b'))",
    "from pathlib import Path\nPath('out.txt').write_text(Path('vendor/x.py').read_text())",
    "from pathlib import Path\nprint((Path('vendor') / 'x.py').read_text().replace('a', 'b'))",
    "import os\nprint(os.path.getsize('config.json')); open('out', 'w').write('x')",
    "import pathlib, shutil\nsrc = pathlib.Path('vendor')\ndst = pathlib.Path('out')\n"
    "dst.mkdir(parents=True, exist_ok=True)\nfor p in src.glob('*.py'):\n    shutil.copy(p, dst / p.name)",
    "name = 'config.json'\ndata = open(name).read()\nopen('out.txt', 'w').write(data)",
    "from pathlib import Path\nBASE = Path('vendor')\nFILE = BASE / 'x.py'\n"
    "def main():\n    Path('out').write_text(FILE.read_text())\nmain()",
    "import csv, json\nfrom pathlib import Path\nout = {}\nfor p in sorted(Path('vendor').rglob('*.py')):\n"
    "    with p.open() as f:\n        out[p.name] = sum(1 for _ in csv.reader(f))\n"
    "Path('counts.json').write_text(json.dumps(out))",
    "import csv\nfrom pathlib import Path\nRAW = Path('vendor') / 'x.py'\nrows = list(csv.reader(RAW.open()))\n"
    "open('out', 'w').write(str(rows))",
    "from pathlib import Path\nRAW = Path(__file__).resolve().parent / 'vendor' / 'x.py'\n"
    "with RAW.open('rb') as f:\n    data = f.read()\nopen('out', 'wb').write(data)",
    "import json\nfrom pathlib import Path\nd = json.load(Path('config.json').open(encoding='utf-8'))\n"
    "Path('out').write_text(json.dumps(d))",
]
WRITES = [
    "open('config.json', 'w').write('x')",
    "import json; d = json.load(open('config.json')); json.dump(d, open('config.json', 'w'))",
    "p = 'config.json'; open(p).read(); open(p, 'w').write('x')",
    "f = open('config.json'); open(f.name, 'w').write('x')",
    "with open('config.json') as f:\n    pass\nopen(f.name, 'w').write('x')",
    "m = 'w'; open('config.json', m).write('x')",
    "open('config.json', 'r+').write('x')",
    "open('config.json', mode='a').write('x')",
    "import os; open = os.remove; open('config.json')",
    "from os import remove as open; open('config.json')",
    "import builtins, os; builtins.open = os.remove; open('config.json').read()",
    "import os as json; json.load(open('config.json')); open('x', 'w')",
    "import os\ndef open(p): os.remove(p)\nopen('config.json')",
    "import shutil; shutil.copy('/tmp/a', 'config.json')",
    "import shutil; shutil.copy('vendor/x.py', 'vendor/y.py')",
    "import shutil; shutil.move('vendor/x.py', '/tmp/x')",
    "import sys; sys.path.append('vendor'); open(sys.path[-1] + '/x.py', 'w')",
    "import sys, sys as s; sys.path.append('vendor'); open(s.path[-1] + '/x.py', 'w')",
    "import sys; from sys import path; sys.path.append('vendor'); open(path[-1] + '/x.py', 'w')",
    "import sys; sys.path.append('vendor'); import x; open(x.__file__, 'w')",
    "from os import *; open('config.json', 'r'); remove('x')",
    "print(open(p := 'config.json').read()); open(p, 'w')",
    "from pathlib import Path\np = Path('vendor/x.py')\np.read_text()\np.write_text('x')",
    "from pathlib import Path\nPath('vendor/x.py').write_text('x')",
    "from pathlib import Path\nfor p in Path('vendor').rglob('*.py'):\n    with p.open('w') as f:\n        f.write('x')",
    "from pathlib import Path\nfor p in Path('vendor').glob('*.py'):\n    p.open(mode='r+').write('x')",
    "from pathlib import Path\nfor p in Path('vendor').glob('*.py'):\n    f = p.open()\n    open(f.name, 'w').write('x')",
    "from pathlib import Path\nRAW = Path(__file__).parent / 'vendor' / 'x.py'\nRAW.open('a').write('x')",
    "from pathlib import Path\nRAW = Path('vendor/x.py')\nm = 'w'\nRAW.open(m).write('x')",
    "from pathlib import Path\nRAW = Path('vendor/x.py')\nRAW.open().read()\nRAW.unlink()",
    "import shutil, pathlib\ndst = pathlib.Path('vendor')\nshutil.copy('out', dst / 'y.py')",
    "import shutil, pathlib\nsrc = pathlib.Path('vendor')\nfor p in src.glob('*.py'):\n    shutil.move(p, 'out')",
    "from pathlib import Path\np = Path('vendor')\nfor f in p.iterdir():\n    f.write_text('x')",
    "name = 'config.json'\nopen(name).read()\nprint(name, file=open(name, 'w'))",
    "import __main__\np = 'config.json'\nopen(p).read()\nopen(__main__.p, 'w')",
    "import sys\np = 'config.json'\nopen(p).read()\nopen(sys.modules['__main__'].p, 'w')",
    "p = 'config.json'\nopen(p).read()\nopen([p][0], 'w')",
    "p = 'config.json'\nopen(p).read()\nopen(f'{p}', 'w')",
    "p = 'config.json'\nq = p\nopen(q).read()\nopen(p, 'w')",
    "p = q = 'config.json'\nopen(p).read()\nopen(q, 'w')",
    "p = 'vendor'\np += '/x.py'\nopen(p).read()\nopen(p, 'w')",
    "class A:\n    p = 'config.json'\n    q = p\nopen('vendor/x.py').read()\nopen(A.p, 'w')",
    "import re; r = repr(open('config.json')); open(re.search(\"name='(.*?)'\", r)[1], 'w')",
    "open('con' + 'fig.json', 'w').write(open('config.json').read())",
    "exec(\"open('config.json', 'w')\")",
    "x = (lambda: open('config.json').read()).__code__.co_consts; open(x[1], 'w')",
]


@pytest.mark.parametrize("code", READS)
def test_code_that_only_reads_is_free(code, root):
    assert judged(python(code), root) == ""


@pytest.mark.parametrize("code", WRITES)
def test_code_that_may_write_is_refused(code, root):
    assert judged(python(code), root) != ""


def test_a_rule_about_reading_covers_such_code(root):
    assert judged(python(READS[0]), root, "deny access config.json") == "deny"
    assert judged(python(READS[1]), root, "deny read vendor/") == "deny"


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        (
            "const fs = require('fs'); fs.writeFileSync('out', fs.readFileSync('config.json'))",
            False,
        ),
        ("const c = require('./config.json'); require('fs').writeFileSync('out', c.a)", False),
        ("const fs = require('fs'); fs.writeFileSync('config.json', fs.readFileSync('out'))", True),
        (
            "const {writeFileSync: readFileSync} = require('fs'); readFileSync('config.json', 'x')",
            True,
        ),
        (
            "const fs = require('fs'); fs.readFileSync = fs.unlinkSync; fs.readFileSync('config.json')",
            True,
        ),
        (
            "const fs = require('fs'), p = 'config.json'; fs.readFileSync(p); fs.writeFileSync(p, '')",
            True,
        ),
        (
            "const fs = {readFileSync: require('fs').unlinkSync}; fs.readFileSync('config.json')",
            True,
        ),
    ],
)
def test_javascript_that_reads_is_free(code, refused, root):
    assert bool(judged(f'node -e "{code}"', root)) is refused


@pytest.mark.parametrize(
    "command",
    [
        "ruby -e 'open(\"|rm config.json\")'",
        'ruby -e \'File.write("config.json", "")\'',
        "perl -e 'open(F, \">config.json\")'",
    ],
)
def test_other_languages_are_judged_as_before(command, root):
    assert judged(command, root) != ""
