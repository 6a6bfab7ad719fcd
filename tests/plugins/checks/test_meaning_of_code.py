"""What the name of code in a rule means: which texts are refused, and which similar ones pass."""

import json
from pathlib import Path

import pytest
from hilum_checks import compile_rule, judge
from hilum_checks.code_remarks import blank_remarks

from tests.support.judged_commands import Ruled, judge_sentence
from tests.support.obedience.judging import make_tool

UNWRAP = "Never use `unwrap()` or `expect()` outside tests."
HTML, EVAL, STYLE = "Never use `innerHTML`.", "Never use `eval()`.", "Never use inline styles."
STORAGE = "Don't use `localStorage` outside `src/api/session.ts`."
ALLOW, TODO, ANY = "Never add `#[allow(...)]`.", "No `TODO` comments.", "Don't use `any` types."
VAR, NOQA, EXPORT = "Never use `var`.", "Never add `# noqa`.", "No default exports."
LODASH = "Never import `lodash`."


def judge_text(sentence: str, path: str, arguments: dict[str, str], root: Path) -> str:
    rule = Ruled(sentence, compile_rule(sentence, hard=True).check)
    found = judge([rule], json.dumps({"path": path, **arguments}), make_tool("write_file"), root)
    return found.kind if found else ""


@pytest.mark.parametrize(
    ("sentence", "path", "text"),
    [
        # methods and properties
        (UNWRAP, "a.rs", "s.parse().unwrap()\n"),
        (UNWRAP, "a.rs", 's.parse()\n    .expect("n")\n'),
        (UNWRAP, "a.rs", "fn f<'a>(x: &'a str) -> &'a str { x.get(1).unwrap() }\n"),
        (HTML, "a.ts", "el.innerHTML = html;\n"),
        (HTML, "a.ts", "el?.innerHTML = html;\n"),
        (STORAGE, "a.ts", "window.localStorage.clear();\n"),
        (STORAGE, "a.ts", "globalThis.localStorage.clear();\n"),
        ("Never use `useEffect`.", "a.tsx", "React.useEffect(f);\n"),
        ("Never use `datetime.now()`.", "a.py", "x = datetime.datetime.now()\n"),
        ("Never use `System.out.println`.", "A.java", "java.lang.System.out.println(1);\n"),
        # functions of the language
        (EVAL, "a.py", "eval(x)\n"),
        (EVAL, "a.js", "window.eval(x)\n"),
        ("Never use `setTimeout`.", "a.js", "globalThis.setTimeout(f, 1)\n"),
        # code beside and in strings and comments
        (EVAL, "a.py", "x = 'a' + eval('b')\n"),
        (EVAL, "a.py", "x = f\"{eval('b')}\"\n"),
        (EVAL, "a.js", "x = `${eval(y)}`\n"),
        (EVAL, "a.js", "/* a */ eval(y) // b\n"),
        (EVAL, "a.js", "get('https://a.b'); eval(y)\n"),
        (HTML, "a.tsx", "<p>don't</p>; el.innerHTML = 'x'\n"),
        (HTML, "a.html", '<a onclick="el.innerHTML = 1">\n'),
        (HTML, "a.vue", '<a @click="el.innerHTML = 1">\n'),
        (HTML, "a.unknown", "// el.innerHTML\n"),
        # placeholders
        (ALLOW, "a.rs", "#[allow(dead_code)]\nfn f() {}\n"),
        (ALLOW, "a.rs", "#![allow(unused, clippy(all))]\n"),
        (ALLOW, "a.rs", "#[allow(\n    dead_code,\n)]\nfn f() {}\n"),
        # comments
        (TODO, "a.ts", "f(); // TODO: more\n"),
        (TODO, "a.py", "f()  # TODO: more\n"),
        (TODO, "a.tsx", "<p>{/* TODO */}</p>\n"),
        (TODO, "a.ts", "/*\n   TODO: more\n*/\n"),
        (TODO, "a.ts", "/**\n * TODO: more\n */\n"),
        (TODO, "a.html", "<!-- TODO -->\n"),
        # other spellings
        (STYLE, "a.tsx", "<p style={{ a: 1 }} />\n"),
        (STYLE, "a.tsx", "<p style={ { a: 1 } } />\n"),
        (STYLE, "a.html", '<p style="a: 1">\n'),
        (ANY, "a.ts", "class A<T = any> {}\n"),
        (ANY, "a.ts", "let f: (x: string) => any;\n"),
        (ANY, "a.ts", "type A = any;\n"),
        (EXPORT, "a.ts", "export { a as default };\n"),
        (EXPORT, "a.ts", "export { default } from './a';\n"),
        (VAR, "a.js", "export var y = 2;\n"),
        (VAR, "a.js", "function f() { var y = 2; }\n"),
        (NOQA, "a.py", "import x  #noqa\n"),
        (NOQA, "a.py", "import x  # NOQA: F401\n"),
        (LODASH, "a.js", "const x = require('lodash')\n"),
    ],
)
def test_what_the_name_means_is_refused(
    sentence: str, path: str, text: str, tmp_path: Path
) -> None:
    assert judge_text(sentence, path, {"content": text}, tmp_path) == "deny"


@pytest.mark.parametrize(
    ("sentence", "path", "text"),
    [
        (UNWRAP, "a.rs", 'v.unwrap_or(0);\nr.expect_err("x");\n'),
        (UNWRAP, "a.rs", "pub fn unwrap(&self) -> u8 {\n"),
        (UNWRAP, "a.rs", '// no unwrap() here\nlet s = "expect(x)";\n'),
        (HTML, "a.ts", "// no innerHTML here\n"),
        (HTML, "a.ts", "const help = `without innerHTML`;\n"),
        (HTML, "a.tsx", "<p dangerouslySetInnerHTML={x} />\n"),
        (HTML, "a.html", "<!-- no innerHTML -->\n"),
        ("Never use `dangerouslySetInnerHTML`.", "a.tsx", "// no dangerouslySetInnerHTML here\n"),
        (EVAL, "a.py", "model.eval()\n"),
        (EVAL, "a.py", '"""Return what\n\neval(x) returns.\n"""\n'),
        ("Never use `print()`.", "a.py", "console.print(x)\n"),
        ("Never use `setTimeout`.", "a.ts", "jest.setTimeout(3000);\n"),
        (ALLOW, "a.rs", "#[deny(dead_code)]\n// #[allow(x)]\n"),
        (TODO, "a.ts", 'type Status = "TODO" | "DONE";\n'),
        (TODO, "a.tsx", '<Column title="TODO" />\n'),
        (TODO, "a.ts", "if (s === Status.TODO) f();\n"),
        (TODO, "a.json", '{"status": "TODO"}\n'),
        (STYLE, "a.tsx", '<ul data-style="wide" />\n<Layer map-style="dark" />\n'),
        (STYLE, "a.tsx", '<p title="use style={{}} never" />\n'),
        (STYLE, "a.tsx", "/* never style={{}} */\n"),
        (STYLE, "a.tsx", "<View style={styles.row} />\n"),
        (ANY, "a.ts", "let s = 'x: any'; // : any\nconst a = any, b = 1;\n"),
        (EXPORT, "a.ts", "export { default as A } from './a';\n"),
        (VAR, "a.js", "// var x\nlet a = 'var b';\n"),
        (NOQA, "a.py", "# noqat\n"),
        (LODASH, "a.js", "// no require('lodash')\n"),
    ],
)
def test_what_only_looks_like_it_passes(
    sentence: str, path: str, text: str, tmp_path: Path
) -> None:
    assert judge_text(sentence, path, {"content": text}, tmp_path) == ""


def test_the_text_around_a_change_tells_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("/* one\n   two\n*/\n// el.innerHTML = 1;\n")

    def edit(old: str, new: str) -> str:
        return judge_text(HTML, "a.ts", {"old_string": old, "new_string": new}, tmp_path)

    assert edit("two", "innerHTML") == ""
    assert edit("// el", "el") == "deny"
    assert edit("*/\n", "*/\nel.innerHTML = 2;\n") == "deny"


@pytest.mark.parametrize("piece", ["`\\", '"\\', "'\\", "/*", '"""', "<!--"])
@pytest.mark.parametrize("path", ["a.ts", "a.py", "a.vue", "a.rs"])
def test_a_long_text_of_beginnings_is_read_in_linear_time(piece: str, path: str) -> None:
    """In quadratic time, each of these would take minutes."""
    text = piece * 50_000
    assert len(blank_remarks(text, path, ("comments", "strings"))) <= len(text)


@pytest.mark.parametrize(
    ("sentence", "command", "kind"),
    [
        (HTML, "echo 'el.innerHTML = 1' > a.js", "deny"),
        (HTML, "cat > a.js <<'E'\n// a\nel.innerHTML = 1\nE", "deny"),
        (HTML, "python3 -c \"open('a.js', 'w').write('el.innerHTML = 1')\"", "deny"),
        (HTML, "printf '/*' > a.js; printf 'el.innerHTML' >> b.js", "deny"),
        (HTML, "sed -i 's//el.innerHTML/' a.js", "deny"),
        (ANY, "python3 -c \"open('a.ts', 'w').write('let x: any;')\"", "deny"),
        (TODO, "echo '// TODO: more' >> a.ts", "deny"),
        (HTML, "cat > a.js <<'E'\n// no innerHTML\nE", ""),
        (HTML, "echo \"throw Error('no innerHTML')\" > a.ts", ""),
        (TODO, "echo 'type A = \"TODO\"' > a.ts", ""),
    ],
)
def test_quotes_of_a_command_are_no_strings_of_the_code(
    sentence: str, command: str, kind: str, tmp_path: Path
) -> None:
    assert judge_sentence(sentence, command, tmp_path) == kind
