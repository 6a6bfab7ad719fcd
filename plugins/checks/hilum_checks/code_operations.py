"""Remove from code what certainly changes no file, for checks that search it for file operations.

``replace``, ``remove`` or ``copy`` are names of file operations, and also of methods of strings,
lists and tables. Only what is certain is removed; whatever is unclear leaves the code as it is.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product

from hilum_guard import UNKNOWN

from hilum_checks import one_liners
from hilum_checks.code_reads import CHANGES_NAMES, MAX_CODE, binds_roots, dotted_name
from hilum_checks.code_texts import join_literals

MAX_EXPANDED = 100
"""Maximum number of texts that an f-string may have."""
# What else a launcher such as `uv run` starts is judged as a command of its own, too.
_PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*|uv|poetry|pipenv|pdm|rye|hatch")
_SCRIPTS = frozenset("node nodejs bun deno tsx ts-node".split())


def find_language(program: str) -> str:
    """Return the language of the code that a program runs: "py" or "js"; empty for others.

    Args:
        program: The program.
    """
    program = os.path.basename(program)
    if _PYTHON.fullmatch(program):
        return "py"
    return "js" if program in _SCRIPTS else ""


@lru_cache(128)
def remove_harmless(text: str, program: str, *, with_known: bool = False) -> str:
    """Return code without what certainly changes no file.

    Args:
        text: The code.
        program: The program that runs it. Code that is not Python or JavaScript is returned
            unchanged.
        with_known: Whether to remove the operations, too, whose paths the code states literally.
    """
    if len(text) > MAX_CODE or UNKNOWN in text:
        return text
    language = find_language(program)
    if language == "py":
        return _remove_from_python(text, with_known=with_known)
    if language == "js":
        return _remove_from_script(text, with_known=with_known)
    return one_liners.remove_comparisons(text, program)


# --- Python ---------------------------------------------------------------------------------------

# Code with one of these may call a function under a name that its text does not show, or in another
# folder.
_HIDES_NAMES = re.compile(
    r"\b(?:getattr|modules\b(?!/)|operator|attrgetter|methodcaller|f?chdir|partial\w*|redirect_\w+)\b|__\w+__"
)
_FILE_MODULES = frozenset("os posix nt shutil pathlib io codecs sys builtins fs".split())
# Modules that start no program, so that a text is no command.
_PLAIN_MODULES = frozenset(
    "os sys io re json csv pathlib shutil datetime time calendar math statistics random decimal"
    " fractions collections itertools functools textwrap string typing dataclasses enum pprint copy"
    " glob fnmatch tempfile hashlib uuid tomllib yaml toml difflib unicodedata html pandas numpy"
    " __future__".split()
)
_STARTS = re.compile(
    r"system|popen|startfile|spawn|exec|fork|\bpty\b|read_sql|to_sql", re.IGNORECASE
)
_DUMPERS = frozenset("json.dump yaml.dump yaml.safe_dump toml.dump tomli_w.dump".split())
_WRITERS = frozenset("csv.writer csv.DictWriter".split())
_PATHS = ("Path", "pathlib.Path")
_TEMPORARY_FOLDERS = frozenset(
    "tempfile.mkdtemp tempfile.gettempdir tempfile.TemporaryDirectory".split()
)
_OPENERS = ("open", "io.open", "codecs.open")
_PATH_METHODS = frozenset(
    "open write_text write_bytes unlink touch mkdir rmdir chmod read_text read_bytes".split()
)
_ONE_PATH = frozenset(
    "os.remove os.unlink os.rmdir os.mkdir os.makedirs os.truncate shutil.rmtree".split()
)
_TWO_PATHS = frozenset(
    "os.rename os.replace shutil.copy shutil.copy2 shutil.copyfile shutil.copytree"
    " shutil.move".split()
)
_HANDLE_METHODS = frozenset(
    "write writelines truncate flush close read readline readlines seek tell writerow writerows"
    " writeheader".split()
)
_STREAM_METHODS = frozenset(
    f"sys.{stream}{part}.{name}"
    for stream in ("stdout", "stderr")
    for part in ("", ".buffer")
    for name in ("write", "writelines")
)
_TARGETS = frozenset(("target", "src", "dst"))
_MODE = re.compile(r"[rwaxbtU+]{1,4}")
_REMOVED = "_"


def _remove_from_python(text: str, *, with_known: bool) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    code = text.replace("re.compile(", "(")
    if CHANGES_NAMES.search(code) or _HIDES_NAMES.search(code) or binds_roots(tree):
        return text
    operations = _Operations(tree, text)
    if operations.passes_modules():
        return text
    operations.remove(with_known=with_known)
    return ast.unparse(tree)


class _Operations:
    """The parts of a program that may change files."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        self.text = text
        self.nodes = list(ast.walk(tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.imported: dict[str, str] = {}
        self.bound: dict[str, list[ast.expr | None]] = {}
        self.visiting: set[str] = set()
        for node in self.nodes:
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = (node.module or ".") + "." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                self.imported[alias.asname or alias.name.split(".")[0]] = f"{module}{alias.name}"
        elif isinstance(node, ast.arg):
            self.bound.setdefault(node.arg, []).append(None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.bound.setdefault(node.name, []).append(None)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.bound.setdefault(node.id, []).extend(self._list_values(node))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            self.bound.setdefault(node.name, []).append(None)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self.bound.setdefault(node.rest, []).append(None)

    def _list_values(self, name: ast.Name) -> list[ast.expr | None]:
        """Return what a statement assigns to a name; ``None`` stands for what is not known."""
        parent = self.parents[name]
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            return [parent.value]
        if isinstance(parent, ast.withitem):
            return [parent.context_expr]
        if isinstance(parent, ast.For | ast.comprehension) and parent.target is name:
            return self._list_items(parent.iter)
        return [None]

    def _list_items(self, node: ast.expr) -> list[ast.expr | None]:
        """Return the elements of a list; ``None`` stands for what is not known."""
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return list(node.elts)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return [node.elt]
        if (
            _is_call_of(node, "sorted", "list")
            and isinstance(node, ast.Call)
            and len(node.args) == 1
        ):
            return self._list_items(node.args[0])
        if _lists_folder(node):
            return [node]
        # What is assigned to a name is known only after all of the code has been read.
        return [ast.Starred(node)] if isinstance(node, ast.Name) else [None]

    def _find_values(self, name: str) -> list[ast.expr | None]:
        """Return everything that is assigned to a name; ``None`` stands for what is not known."""
        values: list[ast.expr | None] = []
        for value in self.bound.get(name, []):
            if not isinstance(value, ast.Starred):
                values.append(value)
                continue
            assert isinstance(value.value, ast.Name)
            lists = self.bound.get(value.value.id, [])
            if not self._is_only_read(value.value.id):
                return [None]
            for each in lists:
                is_list = isinstance(each, _LISTS)
                values += self._list_items(each) if each is not None and is_list else [None]
        return values

    def _is_only_read(self, name: str) -> bool:
        """Return whether a list is only iterated, so that it keeps the elements it begins with."""
        for node in self.nodes:
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                parent = self.parents[node]
                is_read = isinstance(parent, ast.For | ast.comprehension) and parent.iter is node
                if not is_read and not _is_call_of(parent, "len", "print", "sorted"):
                    return False
        return True

    def expand(self, node: ast.expr) -> list[str] | None:
        """Return the texts that an expression may have; ``None`` if they are not known."""
        if isinstance(node, ast.Constant):
            return [str(node.value)] if isinstance(node.value, str | int) else None
        if isinstance(node, ast.FormattedValue):
            is_plain = node.conversion == -1 and node.format_spec is None
            return self.expand(node.value) if is_plain else None
        if isinstance(node, ast.JoinedStr):
            parts = [self.expand(each) for each in node.values]
            known = [each for each in parts if each is not None]
            if len(known) < len(parts) or math.prod(map(len, known)) > MAX_EXPANDED:
                return None
            return ["".join(each) for each in product(*known)]
        if not isinstance(node, ast.Name) or node.id in self.imported or node.id in self.visiting:
            return None
        self.visiting.add(node.id)
        try:
            texts: list[str] = []
            for value in self._find_values(node.id) or [None]:
                found = None if value is None else self.expand(value)
                if found is None or len(texts) + len(found) > MAX_EXPANDED:
                    return None
                texts += found
            return texts
        finally:
            self.visiting.discard(node.id)

    def passes_modules(self) -> bool:
        """Return whether code gives a module of file operations another name, or passes it on."""
        for name, origin in self.imported.items():
            last = origin.rpartition(".")[2]
            if last == "*" or (last in _FILE_MODULES and name != last):
                return True
        for node in self.nodes:
            name = getattr(node, "id", getattr(node, "attr", ""))
            if name in _FILE_MODULES and not isinstance(self.parents.get(node), ast.Attribute):
                return True
        return False

    def remove(self, *, with_known: bool) -> None:
        """Remove what changes no file from the tree."""
        harmless = [each for each in self._find_calls() if self._is_harmless(each)]
        if with_known:
            harmless += [each for each in self._find_calls() if self._is_known(each)]
        is_plain = self._starts_nothing()
        own = self.bound.keys() - self.imported.keys()
        for node in self.nodes:
            # Other checks take `> "name"` for a redirection.
            if isinstance(node, ast.Compare):
                node.ops = [ast.Eq() for _ in node.ops]
            elif isinstance(node, ast.Constant) and is_plain and isinstance(node.value, str):
                if not _MODE.fullmatch(node.value):
                    node.value = ""
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                node.name = _REMOVED
                if not isinstance(node, ast.ClassDef):
                    node.returns = None
            elif isinstance(node, ast.arg):
                node.arg = _REMOVED
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    alias.name = _REMOVED if alias.name == "copy" else alias.name
        for call in harmless:
            if isinstance(call.func, ast.Attribute):
                call.func.attr = _REMOVED
                if dotted_name(call.func.value) == "copy":
                    call.func.value = ast.Name(_REMOVED)
            else:
                call.func = ast.Name(_REMOVED)
        for node in self.nodes:
            if isinstance(node, ast.Name) and node.id in own:
                node.id = _REMOVED

    def _find_calls(self) -> Iterator[ast.Call]:
        return (node for node in self.nodes if isinstance(node, ast.Call))

    def _starts_nothing(self) -> bool:
        """Return whether code starts no program, so that no text in it is a command."""
        names = [getattr(node, "id", getattr(node, "attr", "")) for node in self.nodes]
        modules = {each.split(".")[0] for each in self.imported.values()}
        return modules <= _PLAIN_MODULES and not any(map(_STARTS.search, names))

    def _is_harmless(self, call: ast.Call) -> bool:
        """Return whether a call is one of a method of a text, a list, a table or a date."""
        if not isinstance(call.func, ast.Attribute):
            return False
        name, base = call.func.attr, _last_name(call.func.value)
        keywords = {each.arg for each in call.keywords}
        if None in keywords or any(isinstance(each, ast.Starred) for each in call.args):
            return False
        if dotted_name(call.func) in _STREAM_METHODS:
            return True
        if base == "copy" and self.imported.get("copy") == "copy":
            return name in ("copy", "deepcopy", "replace")
        if base == "dataclasses":
            return name == "replace"
        if name == "dumps" or (base == "ast" and name == "dump"):
            return True
        if base in _FILE_MODULES or base in self.imported:
            return False
        return self._is_method(call, name, keywords)

    def _is_method(self, call: ast.Call, name: str, keywords: set[str | None]) -> bool:
        count = len(call.args)
        only = call.args[0] if count == 1 and not keywords else None
        is_named = count == 0 and bool(keywords) and not keywords & _TARGETS
        if name == "replace":
            return is_named or (count in (2, 3) and not keywords)
        if name == "rename":
            return is_named or isinstance(only, ast.Dict)
        if name == "copy":
            return count == 0 and keywords <= {"deep"}
        if name == "remove":
            assert isinstance(call.func, ast.Attribute)
            is_number = isinstance(only, ast.Constant) and not isinstance(only.value, str | bytes)
            return only is not None and (is_number or self._is_collection(call.func.value))
        if name == "append":
            return only is not None
        return name in ("removeprefix", "removesuffix", "move_to_end")

    def _is_collection(self, node: ast.expr) -> bool:
        """Return whether an expression is certainly a list or a set."""
        if isinstance(node, ast.Name):
            return self._is_bound(node, self._is_collection)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                return node.func.id in ("list", "set", "sorted") and not self.bound.get(
                    node.func.id
                )
            return _last_name(node.func) in ("split", "splitlines", "readlines")
        return isinstance(node, ast.List | ast.Set | ast.ListComp | ast.SetComp)

    # --- operations with literal paths ---

    def _is_known(self, call: ast.Call) -> bool:
        """Return whether the code states literally which file a call changes."""
        if any(isinstance(each, ast.Starred) for each in call.args):
            return False
        if any(each.arg in (None, "opener", "dir_fd", *_TARGETS) for each in call.keywords):
            return False
        name = dotted_name(call.func)
        if name in _OPENERS or name in _ONE_PATH:
            return bool(call.args) and self._is_path(call.args[0])
        if name in _TWO_PATHS:
            return len(call.args) == 2 and all(map(self._is_path, call.args))
        if name in _DUMPERS:
            return len(call.args) == 2 and self._is_handle(call.args[1])
        if name in _WRITERS:
            return bool(call.args) and self._is_handle(call.args[0])
        if not isinstance(call.func, ast.Attribute):
            return False
        base = call.func.value
        if call.func.attr in _PATH_METHODS and self._is_path_object(base):
            return True
        if call.func.attr in ("rename", "replace") and self._is_path_object(base):
            return len(call.args) == 1 and self._is_path(call.args[0])
        return call.func.attr in _HANDLE_METHODS and self._is_handle(base)

    def _is_path(self, node: ast.expr) -> bool:
        """Return whether an expression is a literal path."""
        if isinstance(node, ast.Constant):
            # Other checks find the path only as it is spelled.
            return isinstance(node.value, str) and node.value in self.text
        if isinstance(node, ast.JoinedStr):
            return self.expand(node) is not None
        if self._is_temporary(node):
            return True
        return self._is_bound(node, self._is_path) or self._is_path_object(node)

    def _is_temporary(self, node: ast.expr) -> bool:
        """Return whether an expression is a path in a temporary folder that the code makes."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self._is_temporary(node.left) and _is_inner_name(node.right)
        if isinstance(node, ast.Call):
            name = dotted_name(node.func)
            if name in _TEMPORARY_FOLDERS:
                return not node.args and not node.keywords
            is_joined = name in ("os.path.join", *_PATHS) and bool(node.args)
            rest = node.args[1:]
            return is_joined and self._is_temporary(node.args[0]) and all(map(_is_inner_name, rest))
        return self._is_bound(node, self._is_temporary)

    def _is_path_object(self, node: ast.expr) -> bool:
        if self._is_temporary(node):
            return True
        # Other checks look at the files that such a pattern matches.
        if _lists_folder(node):
            return True
        is_usual = self.bound.keys().isdisjoint(("next", "sorted", "list"))
        if is_usual and _lists_folder(_find_chosen_from(node)):
            return True
        if isinstance(node, ast.Call):
            is_path = dotted_name(node.func) in _PATHS and len(node.args) == 1
            return (
                is_path
                and isinstance(node.args[0], ast.Constant | ast.Name | ast.JoinedStr)
                and self._is_path(node.args[0])
            )
        return self._is_bound(node, self._is_path_object)

    def _is_handle(self, node: ast.expr) -> bool:
        """Return whether an expression is a file that was opened by a literal path."""
        if isinstance(node, ast.Call):
            is_open = dotted_name(node.func) in (*_OPENERS, *_WRITERS)
            is_open |= isinstance(node.func, ast.Attribute) and node.func.attr == "open"
            return is_open and self._is_known(node)
        return self._is_bound(node, self._is_handle)

    def _is_bound(self, node: ast.expr, is_kind: Callable[[ast.expr], bool]) -> bool:
        """Return whether everything that is assigned to a name passes a test."""
        if not isinstance(node, ast.Name) or node.id in self.imported or node.id in self.visiting:
            return False
        # A name may refer to itself: `p = Path(p)`.
        self.visiting.add(node.id)
        try:
            values = self._find_values(node.id)
            return bool(values) and all(each is not None and is_kind(each) for each in values)
        finally:
            self.visiting.discard(node.id)


@lru_cache(128)
def list_formatted(text: str, program: str) -> tuple[str, ...]:
    """Return the texts of the f-strings of Python code into which it puts literals.

    Args:
        text: The code.
        program: The program that runs it; other code than that of Python has no such texts.
    """
    is_python = _PYTHON.fullmatch(os.path.basename(program)) is not None
    if not is_python or len(text) > MAX_CODE or not re.search(r"""\b[fF][rR]?['"]""", text):
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    operations = _Operations(tree, text)
    found: list[str] = []
    for node in operations.nodes:
        if isinstance(node, ast.JoinedStr):
            found += operations.expand(node) or ()
    return tuple(found)


_LISTS = (ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.SetComp)


def _find_chosen_from(node: ast.expr) -> ast.expr:
    """Return the list from which an expression takes one element; otherwise, the expression."""
    if _is_call_of(node, "next") and isinstance(node, ast.Call) and node.args:
        return node.args[0]
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice):
        return node
    listed = node.value
    if not isinstance(listed, ast.Call) or not _is_call_of(listed, "sorted", "list"):
        return node
    return listed.args[0] if len(listed.args) == 1 else node


def _lists_folder(node: ast.expr) -> bool:
    """Return whether an expression lists the files in a literal folder: `Path("a").glob("*.b")`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    folder = node.func.value
    is_listing = node.func.attr in ("glob", "rglob") and len(node.args) == 1 and not node.keywords
    is_path = isinstance(folder, ast.Call) and dotted_name(folder.func) in _PATHS
    if not (is_listing and is_path and isinstance(folder, ast.Call) and len(folder.args) == 1):
        return False
    texts = (folder.args[0], node.args[0])
    return all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in texts)


def _is_inner_name(node: ast.expr) -> bool:
    """Return whether an expression is a literal path that does not leave its folder."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and not text.startswith("/") and ".." not in text.split("/")


def _is_call_of(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


# --- JavaScript -----------------------------------------------------------------------------------

# Without one of these, code cannot use files: it has only what the language itself offers.
_REACHES_FILES = re.compile(
    r"\b(?:require|import|process|fs|fsp|child_process|cluster|worker_threads|vm|repl|inspector|module|global"
    r"|globalThis|Deno|Bun|eval|Function|constructor|Reflect|this|sqlite|wasi|stream|os|util|v8|trace_events)\b|\\u|\\x|__|\]\s*\("
)
_RENAMES = re.compile(
    r"\bfs\s*=(?!\s*(?:await\s+)?(?:require|import)\()|\bfs\s*\[|(?<!\bnode):\s*fs\b|\bas\s+fs\b|[(,]\s*fs\s*[,)]"
    r"|\b(?:eval|Function|constructor|defineProperty|Proxy|Reflect|chdir|globalThis|spawn\w*|exec\w*)\b"
    r"|child_process|\\u|\\x|__"
)
# Methods of texts, which no module of files has, and signs that look like redirections.
_TEXT_METHODS = re.compile(r"\.\s*replace(?:All)?\s*\(")
_ARROW = re.compile(r"=>|>=")
_CONSTANT = re.compile(
    r"""\bconst\s+(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>(?P<q>['"])[^'"\\\n]+(?P=q))\s*(?:;|\n|$)"""
)
_KNOWN_CALL = re.compile(
    r"""\bfs(?:\.promises)?\.(?:(?:write|append)File(?:Sync)?|(?:unlink|rm|mkdir|rmdir|truncate)(?:Sync)?)"""
    r"""\(\s*(?P<q>['"])[^'"\\\n]+(?P=q)(?=\s*[,)])"""
)


def _remove_from_script(text: str, *, with_known: bool) -> str:
    if not _REACHES_FILES.search(join_literals(text)):
        return ""
    if _RENAMES.search(text):
        return text
    reduced = _ARROW.sub(":", _TEXT_METHODS.sub("._(", text))
    for constant in _CONSTANT.finditer(text):
        name = re.escape(constant["name"])
        # The name must have no other value anywhere, and not be that of a parameter.
        others = re.findall(rf"(?<![\w$.]){name}\s*(?:=(?!=)|\bof\b|\bin\b)", text)
        parameter = rf"\b{name}\s*=>|\([^()]*\b{name}\b[^()]*\)\s*(?:=>|\{{)|[{{,]\s*{name}\s*[,}}]"
        if len(others) == 1 and not re.search(parameter, text):
            reduced = re.sub(rf"(\(\s*){name}(?=\s*[,)])", rf"\1{constant['value']}", reduced)
    return _KNOWN_CALL.sub("_(''", reduced) if with_known else reduced
