"""Decide whether a quoted name is code, and return an expression that finds it in files."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable

from hilum_checks import quoted_names
from hilum_checks import vocabulary as v
from hilum_checks.model import mark_detail

# Names that can only be code: `print()`, `.unwrap()`, `std::fs`, `Task.Delay`, `// Arrange`,
# `setTimeout`, `process.env`, `@ts-ignore`, `dbg!`.
_CODE = re.compile(
    r"(?:[\w$.]*\w)?\((?:\.\.\.|['\"].*)?\)|[\w$.]+\w\(.*\)|\.[A-Za-z]\w*(?:\(\))?(?:\.\w+\(\))*"
    r"|\w+::[\w:]*|[A-Z]\w*(?:\.[A-Za-z]\w+)+|as [a-z]+|async [a-z]+"
    r"|//\s?[\w-]+|\w+!\(\)|#!?\[\w+.*\]|@[A-Z]\w+|['\"].+['\"]"
    r"|(?:[a-z]\w*\.)*[a-z]+[A-Z]\w*|[a-z]\w*(?:\.[a-z]\w*)*\.[A-Z]\w+"
    r"|(?:console|process|os|sys|time|datetime|random|typing|logging|window|document|math"
    r"|it|test|describe|fmt|log|unittest)(?:\.\w+)+"
    r"|@ts-[a-z-]+|@author|@apply|@[a-z]\w*(?:\.\w+)+|<(?:img|script|style|iframe|center|font|marquee|button)>"
    r"|\w+\(['\"][\w./-]+|[\w.]+ = ['\"].*['\"]|import [\w{][^`]* from ['\"][^'\"]+['\"];?"
    r"|[a-z_]\w*=(?:True|False|None|true|false)|from [\w.]+ import \w+|\w+(?:::\w+)+\(\)"
    r"|SELECT \*|eslint-disable[\w-]*|# ?(?:type: ?ignore|noqa|nosec).*|\w+!"
    r"|!important|except:"
)
SCRIPTS = (
    "*.ts",
    "*.tsx",
    "*.mts",
    "*.cts",
    "*.js",
    "*.jsx",
    "*.mjs",
    "*.cjs",
    "*.vue",
    "*.svelte",
)
# Texts about code may name what code must not contain.
TEXTS = ("*.md", "*.mdx", "*.mdc", "*.txt", "*.rst", "*.adoc", ".cursorrules")
# Data contains no constructs of code. Programs write it by the thousand lines.
DATA = ("*.csv", "*.tsv", "*.log", "*.parquet", "*.arrow", "*.feather")
DEFAULT_EXPORT = (
    r"^\s*export\s+default\b"
    # `export { a as default }`, and not `export { default as a } from "b"`.
    r"|^\s*export\s*\{[^}]*(?:\bas\s+|(?<=[{,]\s*))default\s*[,}]"
)
# What precedes a word in a comment.
_IN_COMMENT = (
    r"(?:(?:(?<!:)//|(?<![\w&\"'])#|(?:^|\s)--\s|^\s*(?:\*|;|%))[^\n]*?"
    r"|/\*(?:(?!\*/)[\s\S]){0,2000}?|<!--(?:(?!-->)[\s\S]){0,2000}?)"
)
# Words of programming languages: how they are found, and in which files.
_KEYWORDS = {
    "any": (
        r"(?:[:<,|&]\s*|\bas\s+|\)\s*=>\s*|\btype\s+\w+(?:<[^=\n]*>)?\s*=\s*)"
        r"any(?=\s*(?:[;,)=>|&\[\]{}]|$))"
        # The default of a type parameter: `<T = any>`.
        r"|(?<=<[^<>()\n]{0,200}=\s*)any(?=\s*[>,\[])"
    ),
    ": any": r":\s*any(?=\s*(?:[;,)=>|&\[\]{}]|$))",
    "var": r"(?:^|[;{}()]|\bexport|\belse)\s*(?:for\s*\(\s*)?var\s+[\w$\[{]",
    "debugger": r"^\s*debugger\b",
    "fit": r"^\s*fit\s*\(",
    "fdescribe": r"^\s*fdescribe\s*\(",
    "assert": r"^\s*assert\s",
    "print": r"(?<![\w.$>:])print\(",
    "except:": r"^\s*except\s*:",
    "!important": r"!important\b",
    "TODO": rf"{mark_detail(_IN_COMMENT)}\bTODO\b",
    "FIXME": rf"{mark_detail(_IN_COMMENT)}\bFIXME\b",
    "enum": r"^\s*(?:export\s+)?(?:const\s+)?enum\s+\w",
    "export default": DEFAULT_EXPORT,
    "import *": r"^\s*from\s+\S+\s+import\s+\*",
    "from x import *": r"^\s*from\s+\S+\s+import\s+\*",
    "except Exception: pass": r"^\s*except\s+Exception(?:\s+as\s+\w+)?:\s*(?:\n\s*)?pass\b",
    "except: pass": r"^\s*except\s*:\s*(?:\n\s*)?pass\b",
    "interface{}": r"\binterface\s*\{\s*\}",
    "map[string]interface{}": r"\bmap\[string\]interface\s*\{\s*\}",
    "unsafe": r"\bunsafe\s*(?:\{|fn\b|impl\b)",
}
_FILES = {
    "assert": ("*.py",),
    "print": ("*.py",),
    "except:": ("*.py",),
    "import *": ("*.py",),
    "from x import *": ("*.py",),
    "except Exception: pass": ("*.py",),
    "except: pass": ("*.py",),
    "interface{}": ("*.go",),
    "map[string]interface{}": ("*.go",),
    "unsafe": ("*.rs",),
    "!important": ("*.css", "*.scss", "*.sass", "*.less", "*.vue", "*.svelte", *SCRIPTS),
    "TODO": (),
    "FIXME": (),
}
_NO_CODE = ("camelCase", "PascalCase")


def keyword_files(names: Iterable[str]) -> tuple[str, ...]:
    """Return the files in which the words of a programming language mean something; none for other names."""
    known = [name for name in names if name in _KEYWORDS]
    if not known:
        return ()
    return _FILES.get(known[0], SCRIPTS)


def ignored_parts(names: Iterable[str]) -> tuple[str, ...]:
    """Return in which parts of files a name means no code: comments, strings, both or none.

    Args:
        names: The names, which one check forbids.
    """
    ignored = {"comments", "strings"}
    for name in names:
        if name in ("TODO", "FIXME"):
            ignored &= {"strings"}
        elif _IS_REMARK.match(name):
            ignored.clear()
        elif re.search(r"['\"<*]|^!", name):
            # The text of the page, of a query, or of a style may be in a string.
            ignored &= {"comments"}
    return tuple(sorted(ignored))


# Names of what is written in comments: `// Arrange`, `@ts-ignore`.
_IS_REMARK = re.compile(r"//|#(?!!?\[)|@(?:ts-|author|apply)|eslint-")


def is_code(name: str) -> bool:
    """Return whether a name can only be code, and not a file, a command or a host."""
    if name in _KEYWORDS:
        return True
    if not _CODE.fullmatch(name) or len(name) < 4 or name in _NO_CODE:
        return False
    # `Program.cs` is a file, and `Node.js` is neither.
    return "(" in name or not (quoted_names.is_path(name) or v.read_host(name))


def code_expression(name: str) -> str:
    """Return an expression for code; for a function, of its calls with any arguments."""
    if name in _KEYWORDS:
        found = f"(?m:{_KEYWORDS[name]})"
        return found + (mark_detail(f"|{_spaced_call(name)}") if name == "print" else "")
    if imported := _IMPORTED_NAME.fullmatch(name):
        return _import_expression(imported[1], imported[2])
    if argument := _NAMED_ARGUMENT.fullmatch(name):
        return rf"(?<![\w.$]){argument[1]}{_SPACES}={_SPACES}{argument[2]}(?!\w)"
    text = re.sub(r"\((?:\.\.\.|…)?\)$", "(", name)
    if directive := _DIRECTIVE.fullmatch(text):
        # Linters ignore spaces and capitals in their directives.
        words = re.escape(directive[2]).replace(r"\ ", r"\s*")
        return rf"{directive[1]}\s*(?i:{_open_placeholders(words)})(?!\w)"
    start = _start_of(text)
    end = r"(?!\w)" if re.search(r"\w$", text) else ""
    if re.fullmatch(r"\w+\(", text):
        end = mark_detail(_NO_DEFINITION.format(name=re.escape(text)))
    escaped = re.escape(text).replace(r"\ ", r"\s+")
    if text.startswith("#["):
        # The attribute of what is around it is another form: `#![allow(…)]`.
        escaped = escaped.replace(r"\#", r"\#!?", 1)
    found = start + _open_placeholders(escaped) + end
    if re.fullmatch(r"\w+\(", text):
        name = text.removesuffix("(")
        if name in _OF_C:
            found = mark_detail(_NO_DECLARATION) + found
        elif name not in _GLOBAL_FUNCTIONS:
            found += mark_detail(_CALL_WITHOUT_BRACKETS.format(name=name))
    if text.endswith("("):
        found += mark_detail(f"|{_spaced_call(text.removesuffix('('))}")
    if modifier := _TEST_MODIFIER.fullmatch(text):
        # `describe.only.each(…)`, `test.concurrent.only(…)` and ``it.only.each`…` `` do the same.
        owner = rf"(?<![\w.$]){modifier[1]}(?:\.\w+)*" if modifier[1] else ""
        found += mark_detail(rf"|{owner}\.{modifier[2]}(?:\.\w+)*(?:<[^<>()]*>)?[(`]")
    if imported := _IMPORTABLE.fullmatch(text):
        found += mark_detail(_imported_call(imported[1], imported[2]))
    if re.fullmatch(r"(?:[A-Z]\w*\.)+[a-z_]\w*\(", text):
        # Functions of Elixir that are passed on or piped into: `&String.to_atom/1`.
        name = re.escape(text.removesuffix("("))
        found += mark_detail(rf"|&{name}/\d|\|>\s*{name}(?![\w(])")
    return found


# `it.only(`: the functions of JavaScript's test runners, with their modifiers.
_TEST_MODIFIER = re.compile(
    r"(it|test|describe|suite|context|bench)?\.(only|skip|todo|fails|failing)\("
)
# `inplace=True`
_NAMED_ARGUMENT = re.compile(r"([a-z_]\w*)=(True|False|None|true|false)")
_SPACES = mark_detail(r"\s*")
# A function of a module, which other code may import by its name, or the module by another one.
_IMPORTABLE = re.compile(r"([a-z_]\w*(?:\.[a-z_]\w*)*)\.([A-Za-z_]\w*)\(")


_IMPORTED_NAME = re.compile(r"from ([\w.]+) import (\w+)")


def _import_expression(module: str, name: str) -> str:
    """Return an expression for Python's imports of a name from a module."""
    names = rf"(?:\([^()]*?|[^()\n]*?)\b{re.escape(name)}\b"
    return rf"(?m:^[ \t]*from[ \t]+{re.escape(module)}[ \t]+import[ \t]*{names})"


def _imported_call(module: str, name: str) -> str:
    """Return an expression for imports of a function, and for calls of it in a renamed module.

    `from time import sleep` and `import time as t` with `t.sleep(` are ways to call `time.sleep(`.
    """
    direct = f"|{_import_expression(module, name)}"
    module, name = re.escape(module), re.escape(name)
    renamed = (
        rf"|(?m:^[ \t]*import[ \t]+(?:[\w., \t]+,[ \t]*)?{module}[ \t]+as[ \t]+(?P<module>\w+)\b)"
        rf"(?=(?s:.*?)(?<![\w.$])(?P=module)\.{name}\()"
    )
    return direct + renamed


# Functions of C, whose names methods and functions of a project have, too: `pool.free(x)`.
_OF_C = frozenset("alloca calloc free malloc realloc".split())
# A declaration has a type before the name: `void free(int id);`.
_NO_DECLARATION = r"(?<!\b(?!(?:return|else|do|and|or|not|throw|case|co_\w+)\b)[A-Za-z_][\w:<>]*(?:[ \t]+[*&]*|[*&]+[ \t]*))"
# Ruby needs no brackets: `record.update_columns a: 1`.
_CALL_WITHOUT_BRACKETS = r"|(?<=[\w)\]]\.){name}[ \t]+(?::[a-z_]\w*|\w+:[ \t]|[\"'@\d])"
# Directives in comments of Python, such as `# type: ignore`.
_DIRECTIVE = re.compile(r"(#) ?((?:type: ?ignore|noqa|nosec).*)")
_DOTS = r"(?:\\\.\\\.\\\.|…)"
_BALANCED = r"[^()]{0,300}(?:\((?:[^()]|\([^()]{0,300}\)){0,300}\)[^()]{0,300}){0,30}"
_PLACEHOLDERS = (
    # `__version__ = "..."` stands for any version, and `#[allow(...)]` for any warning.
    (re.compile(rf"(?<=['\"]){_DOTS}(?=['\"])"), r"[^'\"\n]*"),
    (re.compile(rf"(?<=\\\(){_DOTS}(?=\\\))"), _BALANCED),
    (re.compile(rf"(?<=\\\[){_DOTS}(?=\\\])"), r"[^\[\]]{0,300}"),
    (re.compile(rf"(?<![\w)\]]){_DOTS}(?![\w{{\[(]|\\[{{\[(])"), r"[^\n]*?"),
)


def _open_placeholders(escaped: str) -> str:
    """Return an escaped text in which `...` stands for anything.

    Before a word, as in `f(...args)`, and after one, as in `f(args...)`, it is code.
    """
    for dots, expression in _PLACEHOLDERS:
        # A function, because backslashes in the expression are no escapes.
        escaped = dots.sub(lambda _, new=expression: new, escaped)  # type: ignore[misc]
    return escaped


# Functions that belong to a language or a framework, while methods of the same name usually mean
# something else: `model.eval()`, `pattern.exec(text)`, `page.setTimeout(1)`.
_GLOBAL_FUNCTIONS = (
    frozenset(dir(builtins))
    | _OF_C
    | frozenset(
        """
    abort alert app assert atob auth btoa cache clearInterval clearTimeout close config confirm date
    describe die dump env escape exit fetch find focus import isFinite isNaN it load log mail
    parseFloat parseInt print prompt quit rand random request require response route session
    setImmediate setInterval setTimeout stop structuredClone test time unescape url view
    """.split()
    )
)
_HOLDERS = r"(?:window|globalThis|global|builtins|__builtins__|System|datetime|java|javax|kotlin)"
# What a module of a program may be an attribute of: `this.fs.readFileSync`.
_OWNERS = r"(?:self|cls|this|app|window|globalThis|global|datetime)"
# Modules, whose names other packages use for their own: `np.random`, `tf.math`.
_MODULES = sys.stdlib_module_names | frozenset(
    """
    assert buffer child_process cluster console crypto dns events fs http http2 https module net os
    path perf_hooks process punycode querystring readline stream timers tls tty url util v8 vm
    worker_threads zlib
    """.split()
)


def _start_of(text: str) -> str:
    """Return an expression for what may be before a name: for properties and methods, an object."""
    if not re.match(r"\w", text):
        return ""
    first = re.split(r"\W", text, maxsplit=1)[0]
    is_dotted = text.startswith(f"{first}.")
    is_global = text in (first, f"{first}(") and first in _GLOBAL_FUNCTIONS
    is_function = re.match(r"\w+(?:$|\(|!|::)", text) is not None
    if is_dotted and text[0].islower():
        if first not in _MODULES:
            # `self.session.execute()` and `Order.objects.raw()`.
            return r"(?<![\w$>:])"
        held = mark_detail(rf"|(?<=(?<![\w.$]){_OWNERS}\??\.))")
        return rf"{mark_detail('(?:')}(?<![\w.$>:]){held}"
    if is_global or not (is_function or is_dotted):
        # `window.fetch()` is the same function, and `datetime.datetime.now()` the same method.
        held = rf"|(?<=(?<![\w.$]){_HOLDERS}\??\.)"
        if first in _OF_C:
            held += r"|(?<=(?<![\w>])(?:std)?::)"
        held = mark_detail(f"{held})")
        return rf"{mark_detail('(?:')}(?<![\w.$>:]){held}"
    return r"(?<![\w$])"


def _spaced_call(name: str) -> str:
    """Return an expression for calls with a space before the bracket, as in `eval (x)`.

    In a comment or a string, the same characters are usually a word and a remark.
    """
    call = rf"{re.escape(name)}[ \t]+\("
    start = ""
    if re.match(r"\w", name):
        start = rf"(?<![\w.$>:]){_BEFORE_CALL}"
        if name not in _GLOBAL_FUNCTIONS and "." not in name:
            start = rf"(?:{start}|(?<=\.))"
    end = _NO_DEFINITION.format(name=call) if re.fullmatch(r"\w+", name) else ""
    return f"(?m:{start}{call}{_NO_REMARK}{_NO_COMMENT}{_NO_STRING}{_NO_HASH}{end})"


# The definition of a function or method is not a call: `def eval(self):`, `fetch(id) {`.
_NO_DEFINITION = (
    r"(?<!\b(?:def|fn|func|fun|function|async|sub)\s+{name})"
    # An attribute of Rust.
    r"(?<!#\[{name})(?<!#!\[{name})"
    # A method of Go has its receiver before its name.
    r"(?<!\bfunc\s+\([^()\n]{{0,80}}\)\s*{name})"
    r"(?!(?<=(?m:^)[ \t]*(?:(?:static|get|set|public|private|protected|override|export)[ \t]+)*{name})"
    r"[\w\s,:?=|.$]*\)[ \t]*(?::[^;{{}}()\n]+)?\{{)"
)
# What precedes code on a line, outside strings and comments: whole strings, and other characters.
# Limits keep long lines from taking long; what is further away counts as code.
_BEFORE = r"(?:[^'\"`\n]|'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`){0,300}"
_NO_COMMENT = (
    rf"(?<!^[ \t]{{0,80}}\*.{{0,300}})(?<!^{_BEFORE}//.{{0,300}})"
    rf"(?<!^{_BEFORE}/\*(?:(?!\*/).){{0,300}})"
)
_NO_STRING = "".join(
    rf"(?!(?<=^{_BEFORE}{quote}[^{quote}{other}\n]{{0,200}})[^{quote}{other}\n]{{0,200}}{quote})"
    # In a template, `${…}` is code.
    for quote, other in (("'", ""), ('"', ""), ("`", "$"))
)
_NO_HASH = r"(?<!^(?:[^'\"\n]{0,300}[ \t])?#(?!\w+[ \t]*=).{0,300})"
# In a text of several lines, a word may be followed by a remark: `to eval (or exec) it`.
_NO_REMARK = r"(?!(?:or|and|see|the|an|which|when|also|again|if|not)[ ,][^()'\"\n]*\))"
# Between a word of a text and a bracket there is a space, too; a call follows no such word.
_BEFORE_CALL = (
    r"(?:(?<=^[ \t]*)|(?<=[=(\[{+*/%&|!?:;<>~^,-][ \t]*)|(?<=\b(?:return|await|yield|in|and|or|not|if"
    r"|elif|else|assert|case|of|typeof|void|delete|throw|do|then|from|while|until|unless|raise)[ \t]+))"
)
