"""Remove paths from code that certainly only reads the files, for rules about writing.

A word such as ``dump`` or ``copy`` makes code look as if it wrote files, so every path in it would
count as written: ``json.dumps(json.load(open("config.json")))``. Only positions that cannot write
are recognised; whatever is unclear leaves the code as it is, and the rule applies.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from hilum_checks.code_texts import REMOVED_PATH

MAX_CODE = 50_000
"""Maximum number of characters of code to parse."""
# Names whose meaning the code must not change.
_ROOTS = frozenset(
    "open io codecs json tomllib yaml csv ast os shutil sys pathlib Path pd pandas list sorted len"
    " enumerate plistlib glob set print zipfile tarfile".split()
)
# Code with one of these may change what any name means.
CHANGES_NAMES = re.compile(
    r"\b(?:exec|eval|compile|setattr|delattr|builtins|globals|locals|vars|importlib|inspect|mock"
    r"|monkeypatch|ctypes|gc|_getframe|settrace|setprofile|audit\w*)\b|__(?!name__|main__|file__)\w+__"
    r"|\.\s*__file__"
)
_OPENERS = ("open", "io.open", "codecs.open")
_PATHS = ("Path", "pathlib.Path")
_PATH_PARTS = ("os.path.join", "str", *_PATHS)
_PATH_READS = ("read_text", "read_bytes", "exists", "is_file", "is_dir", "stat")
_FILE_READS = ("read", "readline", "readlines", "close")
# Functions that read an open file to its end and return what is in it.
_CONSUMERS = frozenset(
    "json.load tomllib.load yaml.safe_load plistlib.load csv.reader csv.DictReader list sorted"
    " enumerate".split()
)
# Functions that only read what their first argument names.
_READS_FIRST = frozenset(
    "os.listdir os.stat os.path.exists os.path.isfile os.path.isdir os.path.getsize pd.read_csv"
    " pd.read_json pd.read_parquet pandas.read_csv pandas.read_json pandas.read_parquet".split()
)
_COPIES = frozenset("shutil.copy shutil.copy2 shutil.copyfile shutil.copytree".split())
# Options of these functions that name no file.
_COPY_OPTIONS = frozenset("dirs_exist_ok follow_symlinks symlinks ignore_dangling_symlinks".split())
# Methods of paths and functions that list the files in a folder, and what passes such a list on.
_LISTING_METHODS = frozenset("glob rglob iterdir".split())
_LISTING_FUNCTIONS = frozenset("glob.glob glob.iglob".split())
_ORDERING = frozenset("sorted list set enumerate".split())
# Parts of a path that do not tell its folder.
_NAME_PARTS = frozenset("name stem suffix suffixes".split())
# Archives, whose method reads the file that it adds.
_ARCHIVES = {"zipfile.ZipFile": ("write",), "tarfile.open": ("add",)}


@lru_cache(64)
def remove_reads(text: str) -> str:
    """Return code without the paths of files that it certainly only reads.

    Args:
        text: Python or JavaScript code. Other code is returned unchanged.
    """
    if len(text) > MAX_CODE:
        return text
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _remove_from_script(text)
    if CHANGES_NAMES.search(text) or binds_roots(tree):
        return text
    if not _REACHES_NAMES.search(text):
        _insert_named_paths(tree)
    paths = list(_Reads(tree).find())
    constants = [
        node
        for path in paths
        for node in ast.walk(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for constant in constants:
        constant.value = REMOVED_PATH
    return ast.unparse(tree) if constants else text


# Modules with which code can list files, but not read what is in them without one of the names below.
_LISTING_MODULES = frozenset(
    "collections datetime fnmatch functools glob itertools json math os pathlib re stat string sys time"
    " typing".split()
)
_MAY_READ = re.compile(
    r"open|read|load|source|copy|link|rename|replace|input|system|exec|eval|spawn|popen|fork|move"
    r"|sendfile|import|getattr|modules|__\w+__|compile|stdin"
)


@lru_cache(64)
def reads_nothing(text: str) -> bool:
    """Return whether Python code certainly reads no file: it only lists or counts files.

    Args:
        text: The code.
    """
    if len(text) > MAX_CODE or CHANGES_NAMES.search(text):
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            modules = {alias.name.split(".")[0] for alias in node.names}
            names = [alias.asname or "" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = {(node.module or ".").split(".")[0]}
            names = [alias.name for alias in node.names] + [
                alias.asname or "" for alias in node.names
            ]
        else:
            modules = set()
            names = [
                getattr(node, "id", ""),
                getattr(node, "attr", ""),
                getattr(node, "arg", "") or "",
            ]
        if not modules <= _LISTING_MODULES or any(map(_MAY_READ.search, names)) or "*" in names:
            return False
    return True


def dotted_name(node: ast.AST) -> str:
    """Return a name such as ``os.path.join``; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def binds_roots(tree: ast.Module) -> bool:
    """Return whether code gives another meaning to a name that this module relies on."""
    return any(not _ROOTS.isdisjoint(_bound_names(node)) for node in ast.walk(tree))


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names to which a part of a program gives another meaning."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield from _imported_names(node, alias)
    elif isinstance(node, ast.Name | ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            yield dotted_name(node).split(".")[0]
    elif isinstance(node, ast.arg):
        yield node.arg
    elif not isinstance(node, ast.alias):
        # Functions, classes, exceptions and patterns.
        name = getattr(node, "name", None)
        if isinstance(name, str):
            yield name


def _imported_names(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> Iterator[str]:
    if isinstance(node, ast.Import):
        is_usual = alias.asname is None or (alias.name, alias.asname) == ("pandas", "pd")
        if not is_usual:
            yield from (alias.name.split(".")[0], alias.asname or "")
        return
    # `from sys import path` is another name for `sys.path`, and `*` may bind every name.
    if alias.name == "*" or node.module == "sys":
        yield "sys"
    if (node.module, alias.name, alias.asname) != ("pathlib", "Path", None):
        yield alias.asname or alias.name


# With one of these, code may read or change a name without writing it.
_REACHES_NAMES = re.compile(r"\bmodules\b|\bdir\b|\bf_\w+|\bimport\b[^\n]*__main__|\bglobal\b")
_PATH_ROOTS = frozenset("os str pathlib Path __file__".split())


def _insert_named_paths(tree: ast.Module) -> None:
    """Write a path in place of each name that can only mean this path: ``src = Path("data")``."""
    bound = Counter(name for node in ast.walk(tree) for name in _bound_names(node))
    loaded = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    # Code may read a name in a class as `Class.name`, which the analysis does not follow.
    in_classes = {
        node
        for outer in ast.walk(tree)
        if isinstance(outer, ast.ClassDef)
        for node in ast.walk(outer)
    }
    values: dict[str, ast.expr] = {}
    inserting = _NamedPaths(values)
    # `a = Path("x")` precedes `b = a / "y"`, so that the paths known so far are inserted first.
    for statement in [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]:
        target = statement.targets[0]
        if len(statement.targets) > 1 or statement in in_classes:
            continue
        if not isinstance(target, ast.Name) or bound[target.id] > 1 or target.id not in loaded:
            continue
        value = inserting.visit(copy.deepcopy(statement.value))
        names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        if _is_plain(value) and names <= _PATH_ROOTS and _contains_text(value):
            values[target.id] = value
    if values:
        inserting.visit(tree)


def _contains_text(value: ast.expr) -> bool:
    """Return whether an expression contains text."""
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) for node in ast.walk(value)
    )


class _NamedPaths(ast.NodeTransformer):
    """A transformer that inserts paths in place of their names, and removes their assignments."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.values.get(node.id)
        return node if value is None else copy.deepcopy(value)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and target.id in self.values:
            return ast.copy_location(ast.Pass(), node)
        self.generic_visit(node)
        return node


class _Reads:
    """The expressions in a program that name files which it only reads."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self.names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]

    def find(self) -> Iterator[ast.expr]:
        """Yield the expressions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and node.args:
                path = self._find_path(node)
                if path is not None and _is_plain(path):
                    yield path
            elif isinstance(node, ast.Attribute) and self._reads_path(node):
                yield node.value
            if isinstance(node, ast.For | ast.comprehension):
                folder = self._find_listed(node)
                if folder is not None and _is_plain(folder):
                    yield folder
                    # Without the folder, `rglob("*.csv")` would seem to search the whole disk.
                    yield from self._find_pattern(folder)

    def _reads_path(self, node: ast.Attribute) -> bool:
        """Return whether a part of a program is a method of a new path, such as ``read_text``."""
        return self._is_reading_method(node) and _makes_path(node.value) and _is_plain(node.value)

    def _is_reading_method(self, node: ast.Attribute) -> bool:
        """Return whether a part of a program is a called method that only reads the file of a path."""
        call = self.parents.get(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            return False
        if node.attr == "open":
            return _is_reading(call, mode_at=0) and self._is_consumed(call)
        return node.attr in _PATH_READS

    def _find_path(self, call: ast.Call) -> ast.expr | None:
        """Return the argument that names a file which a call only reads."""
        name = dotted_name(call.func)
        if name in _OPENERS:
            return call.args[0] if _is_reading(call) and self._is_consumed(call) else None
        if name in _READS_FIRST:
            return call.args[0]
        if name in _COPIES:
            return call.args[0] if len(call.args) == 2 and _has_plain_options(call) else None
        if isinstance(call.func, ast.Attribute) and self._adds_to_archive(call.func):
            return call.args[0]
        if name in ("sys.path.append", "sys.path.insert") and self._uses_path_once():
            return call.args[-1]
        return None

    def _adds_to_archive(self, method: ast.Attribute) -> bool:
        """Return whether a method adds a file to an archive: `zipfile.ZipFile(…).write`."""
        archive = method.value
        if isinstance(archive, ast.Name):
            stored = [
                self._find_stored(node)
                for node in self.names
                if node.id == archive.id and isinstance(node.ctx, ast.Store)
            ]
            openers = [dotted_name(each.func) for each in stored if isinstance(each, ast.Call)]
            is_known = bool(openers) and len(openers) == len(stored)
        else:
            openers = [dotted_name(archive.func)] if isinstance(archive, ast.Call) else []
            is_known = bool(openers)
        return is_known and all(method.attr in _ARCHIVES.get(name, ()) for name in openers)

    def _find_stored(self, name: ast.Name) -> ast.expr | None:
        """Return what a statement stores under a name, if it is plain."""
        parent = self.parents.get(name)
        if isinstance(parent, ast.withitem):
            return parent.context_expr
        return parent.value if isinstance(parent, ast.Assign) else None

    def _find_listed(self, loop: ast.For | ast.comprehension) -> ast.expr | None:
        """Return the folder that a loop lists, if it only reads the files in it."""
        if not isinstance(loop.target, ast.Name) or not self._reads_in_loop(loop):
            return None
        listed = loop.iter
        while isinstance(listed, ast.Call) and dotted_name(listed.func) in _ORDERING - {
            "enumerate"
        }:
            if len(listed.args) != 1 or listed.keywords:
                return None
            listed = listed.args[0]
        if not isinstance(listed, ast.Call):
            return None
        if dotted_name(listed.func) in _LISTING_FUNCTIONS:
            return listed.args[0] if listed.args else None
        is_method = isinstance(listed.func, ast.Attribute) and listed.func.attr in _LISTING_METHODS
        if is_method and isinstance(listed.func, ast.Attribute) and _makes_path(listed.func.value):
            return listed.func.value
        return None

    def _find_pattern(self, folder: ast.expr) -> list[ast.expr]:
        """Return the pattern of the files that a method lists in a folder."""
        method = self.parents.get(folder)
        call = self.parents.get(method) if isinstance(method, ast.Attribute) else None
        arguments = call.args if isinstance(call, ast.Call) else []
        return [each for each in arguments if isinstance(each, ast.Constant)]

    def _reads_in_loop(self, loop: ast.For | ast.comprehension) -> bool:
        """Return whether the name that a loop binds is only used in it, to read files."""
        assert isinstance(loop.target, ast.Name)
        name = loop.target.id
        uses = self._list_uses(name, (ast.For, ast.comprehension))
        return uses is not None and all(map(self._reads_named, uses.get(loop, [])))

    def _reads_named(self, path: ast.expr) -> bool:
        """Return whether a use of a path only reads the file, or takes its last part."""
        parent = self.parents.get(path)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _NAME_PARTS or self._is_reading_method(parent)
        if not isinstance(parent, ast.Call) or path not in parent.args:
            return False
        name = dotted_name(parent.func)
        return name in ("print", "len") or self._find_path(parent) is path

    def _list_uses(
        self, name: str, binders: tuple[type[ast.AST], ...]
    ) -> dict[ast.AST, list[ast.expr]] | None:
        """Return the uses of a name by the statement that binds it; ``None`` if this is not certain.

        Args:
            name: The name.
            binders: The kinds of statements; if something else binds the name, it is not certain.
        """
        uses: dict[ast.AST, list[ast.expr]] = {}
        for node in self.names:
            if node.id != name:
                continue
            if not isinstance(node.ctx, ast.Load):
                parent = self.parents.get(node)
                is_bound = isinstance(parent, binders) or (
                    ast.With in binders and isinstance(parent, ast.withitem)
                )
                if not is_bound:
                    return None
                continue
            binder = self._find_binder(node, name, binders)
            if binder is None:
                return None
            uses.setdefault(binder, []).append(node)
        return uses

    def _find_binder(
        self, node: ast.AST, name: str, binders: tuple[type[ast.AST], ...]
    ) -> ast.AST | None:
        """Return the innermost statement around a use of a name that binds the name."""
        inner, outer = node, self.parents.get(node)
        while outer is not None:
            # A function may run later, when the name means something else.
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return None
            if isinstance(outer, ast.For) and outer.iter is inner:
                pass
            elif isinstance(outer, binders) and name in _names_bound_by(outer):
                return outer
            elif isinstance(outer, _COMPREHENSIONS):
                for each in outer.generators:
                    if each is not inner and name in _names_bound_by(each):
                        return each
            inner, outer = outer, self.parents.get(outer)
        return None

    def _is_called(self, node: ast.AST) -> bool:
        parent = self.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _uses_path_once(self) -> bool:
        """Return whether code only adds to ``sys.path``, and does not read from it."""
        used = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute) and dotted_name(node) == "sys.path"
        ]
        parents = [self.parents.get(node) for node in used]
        is_added = all(
            isinstance(each, ast.Attribute) and each.attr in ("append", "insert")
            for each in parents
        )
        bare = [node for node in self.names if node.id == "sys"]
        return is_added and len(bare) == len(used)

    def _is_consumed(self, file: ast.expr) -> bool:
        """Return whether an open file is only read: its attributes would tell its name."""
        parent = self.parents.get(file)
        if isinstance(parent, ast.withitem) and isinstance(parent.optional_vars, ast.Name):
            name = parent.optional_vars.id
            # Another statement may give the same name to another file.
            uses = self._list_uses(name, (ast.With,))
            if uses is not None:
                return all(map(self._is_read, uses.get(self.parents[parent], [])))
            return self._is_only_read(name)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            target = parent.targets[0]
            return isinstance(target, ast.Name) and self._is_only_read(target.id)
        return self._is_read(file)

    def _is_only_read(self, name: str) -> bool:
        loads = [node for node in self.names if node.id == name and isinstance(node.ctx, ast.Load)]
        return all(map(self._is_read, loads))

    def _is_read(self, file: ast.expr) -> bool:
        parent = self.parents.get(file)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _FILE_READS and self._is_called(parent)
        if isinstance(parent, ast.For | ast.comprehension):
            return parent.iter is file
        return (
            isinstance(parent, ast.Call)
            and file in parent.args
            and dotted_name(parent.func) in _CONSUMERS
        )


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def _names_bound_by(node: ast.AST) -> set[str]:
    """Return the names that a loop or a `with` statement binds."""
    if isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    else:
        targets = [node.target] if isinstance(node, ast.For | ast.comprehension) else []
    return {
        each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
    }


def _has_plain_options(call: ast.Call) -> bool:
    """Return whether the options of a copy are constants that name no file."""
    return all(
        each.arg in _COPY_OPTIONS and isinstance(each.value, ast.Constant) for each in call.keywords
    )


def _is_reading(call: ast.Call, mode_at: int = 1) -> bool:
    """Return whether a call of ``open`` opens a file for reading.

    Args:
        call: The call.
        mode_at: The position of the mode; 0 for the method of a path.
    """
    modes = [
        *call.args[mode_at : mode_at + 1],
        *(each.value for each in call.keywords if each.arg == "mode"),
    ]
    if any(each.arg in (None, "opener") for each in call.keywords) or len(modes) > 1:
        return False
    return all(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and set(mode.value) <= set("rbtU")
        for mode in modes
    )


def _makes_path(node: ast.expr) -> bool:
    """Return whether an expression is a new ``Path``."""
    if isinstance(node, ast.BinOp):
        return _makes_path(node.left)
    if isinstance(node, ast.Attribute):
        return node.attr == "parent" and _makes_path(node.value)
    if isinstance(node, ast.Call) and _is_resolving(node):
        return isinstance(node.func, ast.Attribute) and _makes_path(node.func.value)
    return isinstance(node, ast.Call) and dotted_name(node.func) in _PATHS


def _is_resolving(call: ast.Call) -> bool:
    """Return whether a call makes a path absolute: `Path(__file__).resolve()`."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in ("resolve", "absolute")
    return is_method and not call.args and not call.keywords


def _is_plain(path: ast.expr) -> bool:
    """Return whether an expression only composes a path, and stores it nowhere."""
    for node in ast.walk(path):
        if isinstance(node, ast.Call):
            if dotted_name(node.func) not in _PATH_PARTS and not _is_resolving(node):
                return False
        elif not isinstance(node, _PLAIN):
            return False
        elif isinstance(node, ast.Constant) and re.search(r"[|<>]", str(node.value)):
            return False  # in Ruby and Perl, such a name runs a program or opens a file for writing
    return True


_PLAIN = (
    ast.Constant,
    ast.BinOp,
    ast.Add,
    ast.Div,
    ast.Name,
    ast.Attribute,
    ast.Load,
    ast.JoinedStr,
    ast.FormattedValue,
)

# --- JavaScript -----------------------------------------------------------------------------------

_READERS = (
    "readFileSync|readFile|readdirSync|readdir|existsSync|accessSync|statSync|lstatSync"
    "|createReadStream|require"
)
_READ_CALL = re.compile(
    rf"""((?:\bfs\.|\brequire\(['"](?:node:)?fs['"]\)\.|(?<![\w$.]))(?:{_READERS})\(\s*)(['"])([^'"\\\n]+)\2"""
)
# What may give another meaning to a function that reads.
_CHANGES_READERS = re.compile(
    rf"(?:\b(?:{_READERS})|\bfs)\s*=(?![=>]|\s*(?:await\s+)?(?:require|import)\()"
    rf"|:\s*(?:{_READERS}|fs)\b|\bas\s+(?:{_READERS}|fs)\b|\bfunction\s+(?:{_READERS}|fs)\b"
    rf"|\b(?:{_READERS})\s*\([^'\"()]*\)\s*(?:\{{|=>)|[(,]\s*(?:{_READERS}|fs)\s*[,)][^;\n]*=>"
    r"|\bfs\s*\[|\b(?:eval|Function|assign|defineProperty|Proxy|Reflect)\b|\brequire\.cache"
    # A function may be turned into its text, from which the path can be read.
    r"|(?:=>|\bfunction\b)(?:.|\n)*toString"
)


def _remove_from_script(text: str) -> str:
    """Return JavaScript without the paths of files that it only reads."""
    if _CHANGES_READERS.search(text):
        return text
    return _READ_CALL.sub(_put_placeholder, text)


def _put_placeholder(found: re.Match[str]) -> str:
    # The name of a module stays: "fs" itself is no path.
    return f"{found[1]}{found[2]}{REMOVED_PATH}{found[2]}"
