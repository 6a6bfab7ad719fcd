"""Find the commands that a Python module starts, as far as its text shows them.

A module that a program imports contains much text that is no command, such as docstrings and test
data. Therefore only what reaches a call such as ``subprocess.run`` is read here, in contrast to
``started_commands``, which reads every literal of a script.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from hilum_guard.commands.shell_words import UNKNOWN

MAX_DEPTH = 8
"""Maximum number of names to follow from a call to the text of its command."""
MAX_VALUES = 12
"""Maximum number of values that one expression may have."""
_MODULES = frozenset(
    "os posix subprocess pty asyncio trio anyio pexpect builtins importlib ctypes commands".split()
)
# Functions that start a program, whatever their module is called.
_SURE = re.compile(
    r"system|popen\d?|Popen|check_call|check_output|getoutput|getstatusoutput|posix_spawnp?"
    r"|spawn[lv]p?e?|exec[lv]p?e?|create_subprocess_(?:exec|shell)|run_process|open_process"
)
# Functions that start a program only in one of the modules above.
_IN_MODULE = frozenset(("run", "call", "spawn", "spawnu", "runu"))
_SHELL_TEXT = re.compile(r"system|popen\d?|getoutput|getstatusoutput|create_subprocess_shell")
# These functions take the program first, and then the list of its words, or the words themselves.
_PROGRAM_FIRST = re.compile(r"(?:spawn[lv]|exec[lv])p?e?|posix_spawnp?")
_HIDES = frozenset(("exec", "eval", "compile", "__import__", "globals"))
_TEMPORARY = frozenset("tmp_path tmpdir tmp_path_factory".split())

_LAMBDA = "<lambda>"
_MAY_START = re.compile(rf"(?:{_SURE.pattern})\b|{'|'.join(sorted(_MODULES))}|exec|eval|__")

Value = str | tuple[str, ...]
"""What an expression may be: a text, or a list of words."""


class StartedCommands(NamedTuple):
    """The commands that a module starts.

    Attributes:
        texts: Texts for a shell.
        words: Lists of words; `UNKNOWN` stands for what is known only at run time.
        is_unknown: Whether the module may start other commands, known only at run time.
    """

    texts: tuple[str, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    is_unknown: bool = False


# Most tests are run again before the files that they load change.
@lru_cache(64)
def find_started(texts: tuple[str, ...], callers: tuple[str, ...] = ()) -> StartedCommands:
    """Return the commands that modules start.

    Code whose syntax is not that of Python counts as unknown if it may start a program.

    Args:
        texts: The code of the modules.
        callers: Other code that may call functions of the modules.
    """
    if not any(map(_MAY_START.search, texts)):
        return StartedCommands()
    modules: list[_Module] = []
    is_unknown = False
    readable = 0
    for number, text in enumerate((*texts, *callers)):
        try:
            module = _Module(ast.parse(text), modules)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            is_unknown |= number < len(texts) and _MAY_START.search(text) is not None
            continue
        modules.append(module)
        readable += number < len(texts)
    commands: dict[str, None] = {}
    words: dict[tuple[str, ...], None] = {}
    for module in modules[:readable]:
        try:
            started = module.find()
        except RecursionError:
            is_unknown = True
            continue
        commands.update(dict.fromkeys(started.texts))
        words.update(dict.fromkeys(started.words))
        is_unknown |= started.is_unknown
    return StartedCommands(tuple(commands), tuple(words), is_unknown)


class _Module:
    """The parts of a module that decide what its calls start.

    Args:
        tree: The module.
        modules: All modules that are read, including this one.
    """

    def __init__(self, tree: ast.Module, modules: list[_Module]) -> None:
        self.tree = tree
        self.modules = modules
        self.visiting: set[tuple[str, str]] = set()
        self.imported: dict[str, str] = {}
        self.assigned: dict[str, list[ast.expr]] = {}
        self.added: dict[str, list[ast.expr]] = {}
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.parameters: dict[str, set[str]] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        self.harmless: set[ast.AST] = set()
        for node in ast.walk(tree):
            self._note(node)
        # Functions that code passes on, so that it may call them under other names.
        self.passed = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node not in self.harmless
        }

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                module = node.module if isinstance(node, ast.ImportFrom) else ""
                name = f"{module}.{alias.name}" if module else alias.name
                self.imported[alias.asname or alias.name.split(".")[0]] = name
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
            self._note_assignment(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            for name in _names_in(node.target):
                self.assigned.setdefault(name, []).append(ast.Subscript(node.iter, ast.Slice()))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.functions.setdefault(node.name, []).append(node)
            for each in ast.walk(node.args):
                if isinstance(each, ast.arg):
                    self.parameters.setdefault(each.arg, set()).add(node.name)
                    self.harmless |= set(ast.walk(each.annotation)) if each.annotation else set()
            self.harmless |= set(ast.walk(node.returns)) if node.returns else set()
        elif isinstance(node, ast.Lambda):
            for each in ast.walk(node.args):
                if isinstance(each, ast.arg):
                    self.parameters.setdefault(each.arg, set()).add(_LAMBDA)
        elif isinstance(node, ast.Call):
            self.calls.setdefault(_last_name(node.func), []).append(node)
            self.harmless.add(node.func)
            if _last_name(node.func) in ("isinstance", "issubclass", "cast"):
                self.harmless |= {each for arg in node.args for each in ast.walk(arg)}
            is_list = _last_name(node.func) in ("append", "extend", "insert")
            if is_list and isinstance(node.func, ast.Attribute):
                self.added.setdefault(_last_name(node.func.value), []).extend(node.args[-1:])

    def _note_assignment(
        self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AnnAssign):
            self.harmless |= set(ast.walk(node.annotation))
        if node.value is None:
            return
        for target in targets:
            if isinstance(node, ast.AugAssign):
                self.added.setdefault(_last_name(target), []).append(node.value)
            elif isinstance(target, ast.Name | ast.Attribute):
                self.assigned.setdefault(_last_name(target), []).append(node.value)
            else:
                for name in _names_in(target):
                    part = ast.Subscript(node.value, ast.Slice())
                    self.assigned.setdefault(name, []).append(part)

    # --- calls ------------------------------------------------------------------------------------

    def find(self) -> StartedCommands:
        """Return the commands that the module starts."""
        texts: dict[str, None] = {}
        words: dict[tuple[str, ...], None] = {}
        is_unknown = False
        for call, name, arguments in self._find_starts():
            if self._runs_in_temporary_folder(call):
                continue
            for value in self._list_commands(call, name, arguments):
                if isinstance(value, str):
                    is_unknown |= value.lstrip().startswith(UNKNOWN) or not value
                    texts[value] = None
                else:
                    is_unknown |= not value or UNKNOWN in value[0]
                    words[value] = None
        is_unknown |= self._hides_calls()
        return StartedCommands(tuple(texts), tuple(words), is_unknown)

    def _find_starts(self) -> Iterator[tuple[ast.Call, str, list[ast.expr]]]:
        """Yield the calls that start a program, with the function and its arguments."""
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            name = self._find_function(node.func)
            if name:
                named = [each.value for each in node.keywords if each.arg in ("args", "cmd")]
                yield node, name, [*node.args, *named]
                continue
            # `to_thread(subprocess.run, …)`, `partial(os.system, …)`
            for at, argument in enumerate(node.args):
                name = "" if argument in self.harmless else self._find_function(argument)
                if name:
                    self.harmless.add(argument)
                    yield node, name, node.args[at + 1 :]

    def _find_function(self, node: ast.expr) -> str:
        """Return the name of the function if an expression is one that starts a program."""
        if isinstance(node, ast.Name):
            origin = self.imported.get(node.id, "")
            if not origin:
                values = self.assigned.get(node.id, [])
                aliases = [each for each in values if isinstance(each, ast.Attribute)]
                return next(filter(None, map(self._find_function, aliases)), "")
            module, _, name = origin.rpartition(".")
            return name if self._is_start(name, module) else ""
        if isinstance(node, ast.Attribute):
            base = node.value
            module = self.imported.get(base.id, "") if isinstance(base, ast.Name) else ""
            # `os.exec` is one, and `pattern.exec` or `app.system` of another object may be one.
            return node.attr if self._is_start(node.attr, module) else ""
        return ""

    @staticmethod
    def _is_start(name: str, module: str) -> bool:
        top = module.split(".")[0]
        if name in _IN_MODULE:
            return top in _MODULES and top not in ("asyncio", "trio", "anyio")
        return _SURE.fullmatch(name) is not None and (not top or top in _MODULES)

    def _list_commands(self, call: ast.Call, name: str, arguments: list[ast.expr]) -> list[Value]:
        if not arguments:
            return [""] if call.keywords or call.args else []
        if any(isinstance(each, ast.Starred) for each in arguments[:1]):
            starred = ast.Tuple(list(arguments), ast.Load())
            return [each for each in self._evaluate(starred) if not isinstance(each, str)]
        if _PROGRAM_FIRST.fullmatch(name):
            skipped = 1 if name.startswith("spawn") else 0
            rest = arguments[skipped:]
            if len(rest) > 1 and "v" not in name[4:] and "posix" not in name:
                return self._evaluate(ast.Tuple(rest[1:], ast.Load()))
            return self._evaluate(rest[1] if len(rest) > 1 else ast.Constant(""))
        if name == "create_subprocess_exec" or (name == "spawn" and len(arguments) > 1):
            return self._evaluate(ast.Tuple(list(arguments), ast.Load()))
        return self._evaluate(arguments[0])

    def _runs_in_temporary_folder(self, call: ast.Call) -> bool:
        """Return whether a test starts a program in its own temporary folder."""
        folders = [each.value for each in call.keywords if each.arg == "cwd"]
        if not folders or any(each.arg in ("env", None) for each in call.keywords):
            return False
        node = folders[0]
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            # A path such as `tmp_path / "../.."` leads elsewhere.
            right = node.right
            if not (isinstance(right, ast.Constant) and re.fullmatch(r"\w+", str(right.value))):
                return False
            node = node.left
        is_fixture = isinstance(node, ast.Name) and node.id in _TEMPORARY
        return is_fixture and isinstance(node, ast.Name) and node.id not in self.assigned

    def _hides_calls(self) -> bool:
        """Return whether code runs other code, or functions whose names it assembles."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in _HIDES and node.func.id not in self.functions:
                    return True
                if node.func.id in ("getattr", "vars") and self._names_module(node.args[:1]):
                    return True
            elif isinstance(node, ast.Attribute):
                is_table = node.attr == "__dict__" and self._names_module([node.value])
                if is_table or _dotted(node) in ("builtins.exec", "builtins.eval"):
                    return True
            elif isinstance(node, ast.Subscript) and _dotted(node.value) == "sys.modules":
                name = node.slice.value if isinstance(node.slice, ast.Constant) else ""
                is_read = isinstance(node.ctx, ast.Load) and _dotted(node.slice) != "__name__"
                if is_read and (not name or str(name).split(".")[0] in _MODULES):
                    return True
            elif isinstance(node, ast.Name) and node.id == "__builtins__":
                return True
            # A function that is stored or passed on may be called anywhere.
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Load)
                and node not in self.harmless
                and self._names_module([node.value])
                and self._find_function(node)
                and not self._is_alias(node)
            ):
                return True
        return self._imports_assembled()

    def _is_alias(self, node: ast.Attribute) -> bool:
        """Return whether a function only gets another name, whose calls are read."""
        return any(node in values for values in self.assigned.values())

    def _imports_assembled(self) -> bool:
        calls = [*self.calls.get("import_module", ()), *self.calls.get("run_module", ())]
        calls += self.calls.get("run_path", ())
        return any(
            not (call.args and isinstance(call.args[0], ast.Constant))
            for call in calls
            if self.imported.get(_root_name(call.func), "").split(".")[0] in ("importlib", "runpy")
        )

    def _names_module(self, nodes: list[ast.expr]) -> bool:
        return any(
            isinstance(node, ast.Name) and self.imported.get(node.id, "").split(".")[0] in _MODULES
            for node in nodes
        )

    # --- values -----------------------------------------------------------------------------------

    def _evaluate(self, node: ast.expr, depth: int = 0) -> list[Value]:
        """Return the values that an expression may have; `UNKNOWN` for what is not known."""
        if depth > MAX_DEPTH:
            return [UNKNOWN]
        values = self._evaluate_node(node, depth + 1)
        return values[:MAX_VALUES] if len(values) <= MAX_VALUES else [*values[:MAX_VALUES], UNKNOWN]

    def _evaluate_node(self, node: ast.expr, depth: int) -> list[Value]:
        match node:
            case ast.Constant(value=bytes() as data):
                return [data.decode("utf-8", "replace")]
            case ast.Constant(value=value):
                return [str(value)]
            case ast.JoinedStr(values=parts):
                return [self._join([self._evaluate(each, depth)[:1] for each in parts])]
            case ast.FormattedValue(value=value) | ast.Await(value=value):
                return self._evaluate(value, depth)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return self._evaluate_list(items, depth)
            case ast.BinOp():
                return self._evaluate_operation(node, depth)
            case ast.IfExp(body=body, orelse=other):
                return [*self._evaluate(body, depth), *self._evaluate(other, depth)]
            case ast.BoolOp(values=operands):
                return [value for each in operands for value in self._evaluate(each, depth)]
            case ast.Name(id=name):
                return self._evaluate_name(name, depth)
            case ast.Attribute(attr=name):
                if _dotted(node) == "sys.executable":
                    return ["python3"]
                return self._evaluate_name(name, depth) if name in self.assigned else [UNKNOWN]
            case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=None, step=None)):
                # An element of a list, as in a loop.
                return [
                    each
                    for value in self._evaluate(inner, depth)
                    for each in (value if not isinstance(value, str) else (UNKNOWN,))
                ] or [UNKNOWN]
            case ast.Call():
                return self._evaluate_call(node, depth)
        return [UNKNOWN]

    def _evaluate_list(self, items: list[ast.expr], depth: int) -> list[Value]:
        """Return the lists of words that an expression may be."""
        lists: list[tuple[str, ...]] = [()]
        for item in items:
            is_starred = isinstance(item, ast.Starred)
            inner = item.value if isinstance(item, ast.Starred) else item
            added: list[tuple[str, ...]] = []
            for value in self._evaluate(inner, depth):
                if isinstance(value, str):
                    added.append((value,))
                else:
                    added.append(value if is_starred else (" ".join(value),))
            lists = [(*words, *more) for words in lists for more in added or [(UNKNOWN,)]]
            lists = lists[:MAX_VALUES]
        return list(lists)

    def _evaluate_operation(self, node: ast.BinOp, depth: int) -> list[Value]:
        left = self._evaluate(node.left, depth)
        if isinstance(node.op, ast.Mod):
            return [
                re.sub(r"%[-\w.]*[a-z]", UNKNOWN, each) for each in left if isinstance(each, str)
            ]
        right = self._evaluate(node.right, depth)
        found: list[Value] = []
        for one in left:
            for other in right:
                if isinstance(node.op, ast.Div):
                    name = other if isinstance(other, str) else UNKNOWN
                    # Only the name of a program in an unknown folder matters.
                    known = isinstance(one, str) and UNKNOWN not in one
                    found.append(f"{one}/{name}" if known else name)
                elif isinstance(one, str) and isinstance(other, str):
                    found.append(one + other)
                elif not isinstance(one, str):
                    found.append((*one, *((other,) if isinstance(other, str) else other)))
                else:
                    found.append((one, *other))
        return found if isinstance(node.op, ast.Add | ast.Div) else [UNKNOWN]

    def _evaluate_name(self, name: str, depth: int) -> list[Value]:
        if name in _TEMPORARY and name not in self.assigned:
            return [UNKNOWN]
        if ("", name) in self.visiting:  # `words = words + […]`
            return []
        self.visiting.add(("", name))
        try:
            return self._evaluate_uses(name, depth)
        finally:
            self.visiting.discard(("", name))

    def _evaluate_uses(self, name: str, depth: int) -> list[Value]:
        values: list[Value] = []
        for node in self.assigned.get(name, ()):
            values += self._evaluate(node, depth)
        for function in self.parameters.get(name, ()):
            values += self._evaluate_parameter(name, function, depth)
        is_known = name in self.assigned or name in self.parameters
        origin = "" if is_known else self.imported.get(name, "")
        if origin:
            # What other files of the project set has been written by the user.
            inner = origin.rpartition(".")[2]
            for module in self.modules:
                if module is not self and inner in module.assigned:
                    values += module._evaluate_name(inner, depth)
        more = [value for node in self.added.get(name, ()) for value in self._evaluate(node, depth)]
        for value in more:
            tail = (value,) if isinstance(value, str) else value
            values = [
                each + "".join(tail) if isinstance(each, str) else (*each, *tail) for each in values
            ]
        return values if is_known or origin else [UNKNOWN]

    def _evaluate_parameter(self, name: str, function: str, depth: int) -> list[Value]:
        """Return the values of a parameter at all calls of its function."""
        values: list[Value] = []
        if function == _LAMBDA:
            return [UNKNOWN]
        for definition in self.functions.get(function, ()):
            names = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
            is_method = names[:1] in (["self"], ["cls"])
            rest = definition.args.vararg
            if any(function in module.passed for module in self.modules):
                values.append(UNKNOWN)
            for module, call in self._find_calls(function):
                given = call.args
                shift = 1 if is_method and isinstance(call.func, ast.Attribute) else 0
                if rest is not None and rest.arg == name:
                    values += module._evaluate_list(given[len(names) - shift :], depth)
                elif any(isinstance(each, ast.Starred) for each in given):
                    values.append(UNKNOWN)
                elif name in names and 0 <= names.index(name) - shift < len(given):
                    values += module._evaluate(given[names.index(name) - shift], depth)
                for each in call.keywords:
                    if each.arg == name:
                        values += module._evaluate(each.value, depth)
            defaults = definition.args.defaults
            for other, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
                if other == name:
                    values += self._evaluate(default, depth)
        if not values:
            values = self._evaluate_fixture(name, depth)
        # What calls the function otherwise is the project's own.
        return values

    def _find_calls(self, function: str) -> Iterator[tuple[_Module, ast.Call]]:
        """Yield the calls of a function in all modules, without those of `subprocess.run`."""
        for module in self.modules:
            for call in module.calls.get(function, ()):
                if not module._find_function(call.func):
                    yield module, call

    def _evaluate_fixture(self, name: str, depth: int) -> list[Value]:
        """Return the values that pytest passes for the parameter of a test."""
        values: list[Value] = []
        for module in self.modules:
            values += module._evaluate_returned(name, depth)
            for call in module.calls.get("parametrize", ()):
                names = call.args[0] if len(call.args) > 1 else None
                if isinstance(names, ast.Constant) and name in re.findall(r"\w+", str(names.value)):
                    values += module._evaluate_parameters(call.args[1], depth)
        return values

    def _evaluate_parameters(self, node: ast.expr, depth: int) -> list[Value]:
        """Return the elements of the list in `parametrize`."""
        if not isinstance(node, ast.List | ast.Tuple):
            return self._evaluate(ast.Subscript(node, ast.Slice()), depth)
        values: list[Value] = []
        for item in node.elts:
            inner = item.args[0] if isinstance(item, ast.Call) and item.args else item
            values += self._evaluate(inner, depth)
            # With several names, each element is a list of values.
            values += self._evaluate(ast.Subscript(inner, ast.Slice()), depth)
        return [value for value in values if value != UNKNOWN]

    def _evaluate_call(self, node: ast.Call, depth: int) -> list[Value]:
        name = _last_name(node.func)
        if name in ("str", "Path", "PurePath", "fspath", "which", "list", "tuple") and node.args:
            return self._evaluate(node.args[0], depth)
        if name == "split" and isinstance(node.func, ast.Attribute):
            source = node.args[0] if _dotted(node.func) == "shlex.split" else node.func.value
            return [_split(each) for each in self._evaluate(source, depth)]
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "join" and node.args and isinstance(base, ast.Constant):
            separator = str(base.value)
            lists = self._evaluate(node.args[0], depth)
            return [each if isinstance(each, str) else separator.join(each) for each in lists]
        if name == "format" and isinstance(node.func, ast.Attribute):
            texts = self._evaluate(node.func.value, depth)
            return [re.sub(r"\{[^{}]*\}", UNKNOWN, each) for each in texts if isinstance(each, str)]
        return self._evaluate_function(name, depth)

    def _evaluate_function(self, name: str, depth: int) -> list[Value]:
        """Return what a function returns, if one of the modules defines it."""
        defining = [module for module in self.modules if name in module.functions]
        if not defining:
            return [UNKNOWN]
        return [value for module in defining for value in module._evaluate_returned(name, depth)]

    def _evaluate_returned(self, name: str, depth: int) -> list[Value]:
        if (name, "") in self.visiting:
            return []
        self.visiting.add((name, ""))
        try:
            values: list[Value] = []
            for function in self.functions.get(name, ()):
                for each in ast.walk(function):
                    if isinstance(each, ast.Return | ast.Yield) and each.value is not None:
                        values += self._evaluate(each.value, depth)
            return values
        finally:
            self.visiting.discard((name, ""))

    @staticmethod
    def _join(parts: list[list[Value]]) -> str:
        texts = [part[0] if part and isinstance(part[0], str) else UNKNOWN for part in parts]
        return "".join(texts)


def _split(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError:
        return (UNKNOWN,)


def _names_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _root_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return _last_name(node)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
