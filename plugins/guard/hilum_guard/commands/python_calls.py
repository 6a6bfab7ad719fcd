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
from functools import cached_property, lru_cache
from typing import NamedTuple

from hilum_guard.commands.list_changes import Change, Changes, Scope, get_base_name, read_change
from hilum_guard.commands.shell_words import UNKNOWN

MAX_DEPTH = 8
"""Maximum number of names to follow from a call to the text of its command."""
MAX_VALUES = 12
"""Maximum number of values that one expression may have."""
MAX_STEPS = 20_000
"""Maximum number of expressions to evaluate in all modules of a command; the rest is unknown."""
_MODULES = frozenset(
    "os posix subprocess pty asyncio trio anyio pexpect builtins importlib ctypes commands".split()
)
# Libraries with which any function, or any attribute, may be a program.
_LIBRARIES = frozenset("sh plumbum invoke fabric delegator sarge git".split())
# Modules that run code in a file, or in data.
_LOADERS = frozenset("runpy importlib marshal pickle code timeit imp zipimport".split())
# Functions that start a program, whatever their module is called.
_SURE = re.compile(
    r"system|popen\d?|Popen|check_call|check_output|getoutput|getstatusoutput|posix_spawnp?"
    r"|spawn[lv]p?e?|exec[lv]p?e?|create_subprocess_(?:exec|shell)|run_process|open_process"
)
# Functions that start a program only in one of the modules above.
_IN_MODULE = frozenset(("run", "call", "spawn", "spawnu", "runu"))
# These functions take the program first, and then the list of its words, or the words themselves.
_PROGRAM_FIRST = re.compile(r"(?:spawn[lv]|exec[lv])p?e?|posix_spawnp?")
_HIDES = frozenset(("exec", "eval", "compile", "__import__", "globals", "execfile"))
# Functions of other modules that run code, or get a function by its name.
_HIDES_IN_MODULE = re.compile(
    r"builtins\.(?:exec|eval|compile|__import__|getattr|vars|globals|__dict__)|marshal\.loads?"
    r"|operator\.(?:attrgetter|methodcaller)|timeit\.(?:timeit|repeat|Timer)|imp\.\w+"
    r"|code\.(?:Interactive\w+|interact|compile_command)|zipimport\.zipimporter"
    r"|types\.(?:CodeType|FunctionType)"
)
# Functions that load code from a file or module: their arguments must be known.
_LOADS = re.compile(
    r"import_module|run_module|run_path|spec_from_file_location|\w*FileLoader|spec_from_loader"
)
_TEMPORARY = frozenset("tmp_path tmpdir tmp_path_factory".split())

_LAMBDA = "<lambda>"
_MAY_START = re.compile(
    rf"(?:{_SURE.pattern})\b|{'|'.join(sorted(_MODULES | _LOADERS))}|exec|eval|__"
    rf"|import\s+(?:{'|'.join(sorted(_LIBRARIES))})\b|from\s+(?:{'|'.join(sorted(_LIBRARIES))})\b"
    r"|operator|types"
)
# Encodings in which text means what it seems to mean; in others, a comment may be code (PEP 263).
_CODING = re.compile(r"(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_CODING = re.compile(
    r"utf[-_]?8(?:[-_]sig)?|(?:us[-_])?ascii|latin[-_]?1|iso[-_]8859[-_]\d+|cp125\d"
)
# An unknown number of words that are known only at run time.
_MORE_WORDS = (UNKNOWN,) * 3
# Stands for a value that refers to itself, followed by its name.
_SELF = "\0"

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
    project = _Project()
    is_unknown = False
    readable = 0
    for number, text in enumerate((*texts, *callers)):
        if number < len(texts) and not has_plain_coding(text):
            is_unknown = True
        try:
            module = _Module(ast.parse(text), project)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            is_unknown |= number < len(texts) and _MAY_START.search(text) is not None
            continue
        project.add(module)
        readable += number < len(texts)
    commands: dict[str, None] = {}
    words: dict[tuple[str, ...], None] = {}
    for module in project.modules[:readable]:
        try:
            started = module.find()
        except RecursionError:
            is_unknown = True
            continue
        commands.update(dict.fromkeys(started.texts))
        words.update(dict.fromkeys(started.words))
        is_unknown |= started.is_unknown
    return StartedCommands(tuple(commands), tuple(words), is_unknown)


def has_plain_coding(text: str) -> bool:
    """Return whether Python reads a text as it seems to be, and not in an unusual encoding."""
    found = _CODING.match(text)
    return found is None or _PLAIN_CODING.fullmatch(found[1].lower()) is not None


class _Project:
    """All modules that are read, with their names.

    Attributes:
        modules: The modules.
        binding: The modules that import or assign a name.
        starring: The modules that import all names of others.
        changing: The modules that may change a list that has a name.
        defining: The modules that define a function.
        calling: The modules that call a function.
        passed: Functions that code passes on, so that it may call them under other names.
        count: The number of expressions that have been evaluated.
        cycles: The number of expressions that were found to refer to themselves.
    """

    def __init__(self) -> None:
        self.modules: list[_Module] = []
        self.binding: dict[str, list[_Module]] = {}
        self.starring: list[_Module] = []
        self.changing: dict[str, list[_Module]] = {}
        self.defining: dict[str, list[_Module]] = {}
        self.calling: dict[str, list[_Module]] = {}
        self.passed: set[str] = set()
        self.count = 0
        self.cycles = 0

    def add(self, module: _Module) -> None:
        """Add a module."""
        self.modules.append(module)
        self.passed |= module.passed
        if module.starred:
            self.starring.append(module)
        for name in module.imported.keys() | module.assigned.keys():
            self.binding.setdefault(name, []).append(module)
        for name in module.changes.possible:
            self.changing.setdefault(name, []).append(module)
        for name in module.functions:
            self.defining.setdefault(name, []).append(module)
        for name in module.calls:
            self.calling.setdefault(name, []).append(module)

    @cached_property
    def changed_parameters(self) -> frozenset[str]:
        """The functions that may change what is passed to them."""
        return frozenset(
            function
            for module in self.modules
            for parameter in module.changes.possible
            for function in module.parameters.get(parameter, ())
            if module.changes.list_in(parameter, function)
        )


class _Module:
    """The parts of a module that decide what its calls start.

    Args:
        tree: The module.
        project: All modules that are read, including this one.
    """

    def __init__(self, tree: ast.Module, project: _Project) -> None:
        self.tree = tree
        self.project = project
        self._values: dict[tuple[ast.expr, int], list[Value]] = {}
        self._started: dict[str, str] = {}
        self._calls_of: dict[str, list[tuple[_Module, ast.Call]]] = {}
        self._changed_elsewhere: dict[str, bool] = {}
        self.changes = Changes(tree)
        self.visiting: set[tuple[str, str]] = set()
        self.starred: list[str] = []
        self.imported: dict[str, str] = {}
        self.assigned: dict[str, list[ast.expr]] = {}
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
                if alias.name == "*":
                    self.starred.append(module or "")
                    continue
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

    def _note_assignment(
        self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AnnAssign):
            self.harmless |= set(ast.walk(node.annotation))
        if node.value is None or isinstance(node, ast.AugAssign):
            return
        if isinstance(node, ast.Assign) and read_change(node)[1] is not None:
            return
        for target in targets:
            if isinstance(target, ast.Name | ast.Attribute):
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
                    continue
                is_unknown |= not value or UNKNOWN in value[0]
                words[value] = None
                if self._find_function(call.func) == "":
                    # `map(os.system, ["git push"])`
                    texts.update(dict.fromkeys(each for each in value if " " in each))
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
            known = self._started.get(node.id)
            if known is None:
                known = self._find_named(node.id, set())
                self._started[node.id] = known
            return known
        if isinstance(node, ast.Attribute):
            return self._find_attribute(node, set())
        return ""

    def _find_named(self, name: str, seen: set[tuple[_Module, str]]) -> str:
        """Return the function that starts a program and that has a name in this module, if any.

        Args:
            name: The name.
            seen: The names that have been looked up, and do not need to be followed again.
        """
        if (self, name) in seen:
            return ""
        seen.add((self, name))
        origin = self.imported.get(name, "")
        if origin:
            module, _, inner = origin.rpartition(".")
            if self._is_start(inner, module):
                return inner
            return self._find_in_others(inner, seen) if module else ""
        return self._find_alias(name, seen) or self._find_starred(name, seen)

    def _find_attribute(self, node: ast.Attribute, seen: set[tuple[_Module, str]]) -> str:
        # `os.exec` is one, and `pattern.exec` or `app.system` of another object may be one.
        if self._is_start(node.attr, self._find_module(node.value)):
            return node.attr
        if node.attr in self.assigned:  # `self.start = subprocess.run`
            return self._find_alias(node.attr, seen)
        base = self.imported.get(_last_name(node.value), "")
        is_own = base and base.split(".")[0] not in _MODULES
        return self._find_in_others(node.attr, seen) if is_own else ""

    def _find_alias(self, name: str, seen: set[tuple[_Module, str]]) -> str:
        """Return the function that starts a program and that code assigns to a name, if any."""
        if (self, f"={name}") in seen:
            return ""
        seen.add((self, f"={name}"))
        for value in self.assigned.get(name, ()):
            found = ""
            if isinstance(value, ast.Name):
                found = self._find_named(value.id, seen)
            elif isinstance(value, ast.Attribute):
                found = self._find_attribute(value, seen)
            if found:
                return found
        return ""

    def _find_starred(self, name: str, seen: set[tuple[_Module, str]]) -> str:
        """Return a function that starts a program if `from MODULE import *` may have imported it."""
        if not self.starred or name in self.functions or name in self.parameters:
            return ""
        if any(self._is_start(name, module) for module in self.starred if module):
            return name
        return self._find_in_others(name, seen)

    def _find_in_others(self, name: str, seen: set[tuple[_Module, str]]) -> str:
        """Return a function that starts a program if another module has it under a name."""
        for module in (*self.project.binding.get(name, ()), *self.project.starring):
            if module is self or name in module.functions:
                continue
            found: str = module._find_named(name, seen)
            if found:
                return found
        return ""

    def _find_module(self, node: ast.expr) -> str:
        """Return the module that an expression is; empty if it is none, or not known."""
        name = _last_name(node)
        origin = self.imported.get(name, "")
        if isinstance(node, ast.Attribute):
            # `helper.subprocess`
            return name if name in _MODULES else ""
        if origin or not isinstance(node, ast.Name):
            return origin
        values = [each for each in self.assigned.get(name, ()) if isinstance(each, ast.Name)]
        return next(filter(None, (self.imported.get(each.id, "") for each in values)), "")

    @staticmethod
    def _is_start(name: str, module: str) -> bool:
        top = module.split(".")[0]
        if name in _IN_MODULE:
            return top in _MODULES and top not in ("asyncio", "trio", "anyio")
        return _SURE.fullmatch(name) is not None and (not top or top in _MODULES)

    def _list_commands(self, call: ast.Call, name: str, arguments: list[ast.expr]) -> list[Value]:
        """Return the commands that a call starts."""
        commands = self._list_given(call, name, arguments)
        replaced = [each.value for each in call.keywords if each.arg == "executable"]
        for node in replaced:
            # The words of the command then begin with any name.
            for program in self._evaluate(node):
                first = program if isinstance(program, str) else UNKNOWN
                commands += [(first, *each[1:]) for each in commands if not isinstance(each, str)]
        return commands

    def _list_given(self, call: ast.Call, name: str, arguments: list[ast.expr]) -> list[Value]:
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
        if any(self._is_hidden(node) for node in ast.walk(self.tree)):
            return True
        imported = {origin.split(".")[0] for origin in (*self.imported.values(), *self.starred)}
        return not _LIBRARIES.isdisjoint(imported) or self._loads_assembled()

    def _is_hidden(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name in ("getattr", "vars") and self._names_module(node.args[:1]):
                return True
        if isinstance(node, ast.Name):
            is_own = node.id in self.functions or node.id in self.assigned
            if not isinstance(node.ctx, ast.Load):
                return False
            if node.id == "__builtins__" or (node.id in _HIDES and not is_own):
                return node.id not in self.parameters
            if _HIDES_IN_MODULE.fullmatch(self.imported.get(node.id, "")):
                return True
            return self._is_stored_function(node)
        if isinstance(node, ast.Attribute):
            if node.attr == "__dict__" and self._names_module([node.value]):
                return True
            full = f"{self._find_module(node.value)}.{node.attr}"
            return _HIDES_IN_MODULE.fullmatch(full) is not None or self._is_stored_function(node)
        if isinstance(node, ast.Subscript) and _dotted(node.value) == "sys.modules":
            key = node.slice.value if isinstance(node.slice, ast.Constant) else ""
            is_read = isinstance(node.ctx, ast.Load) and _dotted(node.slice) != "__name__"
            return is_read and (not key or str(key).split(".")[0] in _MODULES)
        return False

    def _is_stored_function(self, node: ast.Name | ast.Attribute) -> bool:
        """Return whether code stores or passes on a function, which may be called anywhere."""
        if not isinstance(node.ctx, ast.Load) or node in self.harmless:
            return False
        if isinstance(node, ast.Attribute) and not self._names_module([node.value]):
            return False
        if isinstance(node, ast.Name) and node.id not in self.imported:
            return False
        return bool(self._find_function(node)) and not self._is_alias(node)

    def _is_alias(self, node: ast.Name | ast.Attribute) -> bool:
        """Return whether a function only gets another name, whose calls are read."""
        return any(node in values for values in self.assigned.values())

    def _loads_assembled(self) -> bool:
        """Return whether code loads modules or files whose names it assembles, or hidden ones."""
        for name, calls in self.calls.items():
            if not _LOADS.fullmatch(name):
                continue
            for call in calls:
                origin = self.imported.get(_root_name(call.func), name)
                if origin.split(".")[0] not in ("importlib", "runpy", name):
                    continue
                given = [*call.args[:2], *(each.value for each in call.keywords)]
                texts = [each.value for each in given if isinstance(each, ast.Constant)]
                is_known = bool(given) and len(texts) == len(given)
                # Its functions are called without being imported.
                if not is_known or any(str(text).split(".")[0] in _MODULES for text in texts):
                    return True
        return any(
            isinstance(each, ast.Constant)
            for name in ("loads", "load")
            for call in self.calls.get(name, ())
            if self._find_module(getattr(call.func, "value", call.func)) == "pickle"
            for each in call.args[:1]
        )

    def _names_module(self, nodes: list[ast.expr]) -> bool:
        return any(self._find_module(node).split(".")[0] in _MODULES for node in nodes)

    # --- values -----------------------------------------------------------------------------------

    def _evaluate(self, node: ast.expr, depth: int = 0) -> list[Value]:
        """Return the values that an expression may have; `UNKNOWN` for what is not known."""
        if depth > MAX_DEPTH or self.project.count >= MAX_STEPS:
            return [UNKNOWN]
        known = self._values.get((node, depth))
        if known is not None:
            return known
        self.project.count += 1
        cycles = self.project.cycles
        values = _limit(self._evaluate_node(node, depth + 1))
        # Within a cycle, the values are not complete.
        if self.project.cycles == cycles:
            self._values[node, depth] = values
        return values

    def _evaluate_node(self, node: ast.expr, depth: int) -> list[Value]:
        match node:
            case ast.Constant(value=bytes() as data):
                return [data.decode("utf-8", "replace")]
            case ast.Constant(value=value):
                return [str(value)]
            case ast.JoinedStr(values=parts):
                return self._join([self._evaluate(each, depth) for each in parts])
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
                return self._evaluate_name(name, depth, self.changes.find_scope(node))
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
            for value in _without_self(self._evaluate(inner, depth)):
                if isinstance(value, str):
                    added.append(_MORE_WORDS if is_starred and value == UNKNOWN else (value,))
                else:
                    added.append(value if is_starred else (" ".join(value),))
            lists = [(*words, *more) for words in lists for more in added or [_MORE_WORDS]]
            if len(lists) > MAX_VALUES + 1:
                return [*lists[:MAX_VALUES], UNKNOWN]
        return list(lists)

    def _evaluate_operation(self, node: ast.BinOp, depth: int) -> list[Value]:
        left = _without_self(self._evaluate(node.left, depth))
        if isinstance(node.op, ast.Mod):
            return [
                re.sub(r"%(?:\(\w+\))?[-#+ \w.*]*[a-zA-Z]", UNKNOWN, each)
                for each in left
                if isinstance(each, str)
            ]
        right = _without_self(self._evaluate(node.right, depth))
        found: list[Value] = []
        for one in left:
            for other in right:
                if isinstance(node.op, ast.Div):
                    name = other if isinstance(other, str) else UNKNOWN
                    # Only the name of a program in an unknown folder matters.
                    known = isinstance(one, str) and UNKNOWN not in one
                    found.append(f"{one}/{name}" if known else name)
                else:
                    found.append(_add(one, other))
        return found if isinstance(node.op, ast.Add | ast.Div) else [UNKNOWN]

    def _evaluate_name(self, name: str, depth: int, scope: Scope = None) -> list[Value]:
        """Return the values of a name.

        Args:
            name: The name.
            depth: The number of names that were followed.
            scope: The function of which it is a variable; ``None`` if that is not known.
        """
        if name in _TEMPORARY and name not in self.assigned:
            return [UNKNOWN]
        key = f"{name} {id(scope)}"
        if ("", key) in self.visiting:
            self.project.cycles += 1
            return [f"{_SELF}{key}"]
        self.visiting.add(("", key))
        try:
            values = self._evaluate_uses(name, depth, scope)
        finally:
            self.visiting.discard(("", key))
        return [each for each in values if each != f"{_SELF}{key}"]

    def _evaluate_uses(self, name: str, depth: int, scope: Scope) -> list[Value]:
        values: list[Value] = []
        for node in self.assigned.get(name, ()):
            if scope is not None and not self.changes.is_in_scope(name, node, scope):
                continue
            given = self._evaluate(node, depth)
            for change in self.changes.certain.get(node, ()):
                added = self._added(change, depth)
                given = _limit([_add(one, more) for one in given for more in added])
            values += self._change(given, self.changes.list_for(name, node), depth)
        for function in self.parameters.get(name, ()):
            if scope is not None and function != getattr(scope, "name", _LAMBDA):
                continue
            given = self._evaluate_parameter(name, function, depth)
            values += self._change(given, self.changes.list_in(name, function), depth)
        is_known = name in self.assigned or name in self.parameters
        origin = "" if is_known else self.imported.get(name, "")
        if origin:
            # What other files of the project set has been written by the user.
            inner = origin.rpartition(".")[2]
            for module in self.project.binding.get(inner, ()):
                if module is not self and inner in module.assigned:
                    given = module._evaluate_name(inner, depth)
                    values += self._change(given, self.changes.possible.get(name, []), depth)
        for module in self.project.changing.get(name, ()):
            # Another module may change `settings.words`.
            if (
                module is not self
                and name not in module.assigned
                and not module.parameters.get(name)
            ):
                values = module._change(values, module.changes.possible.get(name, []), depth)
        if not is_known and not origin:
            return [UNKNOWN]
        return [*values, UNKNOWN] if values and self._may_change_elsewhere(name) else values

    def _added(self, change: Change, depth: int) -> list[Value]:
        """Return what a change adds."""
        if change.value is None:
            return [_MORE_WORDS]
        values = _without_self(self._evaluate(change.value, depth)) or [UNKNOWN]
        if change.kind == "extend":
            return values
        return [(each if isinstance(each, str) else " ".join(each),) for each in values]

    def _change(self, values: list[Value], changes: list[Change], depth: int) -> list[Value]:
        """Return the values after changes each of which may happen, in any order, or not."""
        if not changes or not values:
            return values
        found = list(values)
        together = list(values)
        for change in changes:
            if change.kind == "other":
                found.append(UNKNOWN)
                continue
            added = self._added(change, depth)
            if change.kind == "insert":
                found.append(UNKNOWN)
                found += [_add(more, one) for one in values for more in added]
                continue
            found += [_add(one, more) for one in values for more in added]
            together = _limit([_add(one, more) for one in together for more in added])
        unknown: list[Value] = [UNKNOWN if isinstance(one, str) else _MORE_WORDS for one in values]
        found += [*together, *map(_add, values, unknown)]
        return list(dict.fromkeys(found))

    def _may_change_elsewhere(self, name: str) -> bool:
        """Return whether code may change a list under another name: an alias, or a parameter."""
        known = self._changed_elsewhere.get(name)
        if known is None:
            known = self._has_changed_alias(name)
            self._changed_elsewhere[name] = known
        return known

    def _has_changed_alias(self, name: str) -> bool:
        for other, values in self.assigned.items():
            if other == name:
                continue
            for value in values:
                is_changed = self.changes.possible.get(other) or self.changes.certain.get(value)
                if is_changed and name in _list_parts(value):
                    return True
        for function in self.project.changed_parameters & self.calls.keys():
            for call in self.calls[function]:
                given = [*call.args, *(each.value for each in call.keywords)]
                if any(name in _list_parts(each) for each in given):
                    return True
        return False

    def _evaluate_parameter(self, name: str, function: str, depth: int) -> list[Value]:
        """Return the values of a parameter at all calls of its function."""
        values: list[Value] = []
        if function == _LAMBDA:
            return [UNKNOWN]
        for definition in self.functions.get(function, ()):
            names = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
            is_method = names[:1] in (["self"], ["cls"])
            rest = definition.args.vararg
            if function in self.project.passed:
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

    def _find_calls(self, function: str) -> list[tuple[_Module, ast.Call]]:
        """Return the calls of a function in all modules, without those of `subprocess.run`."""
        known = self._calls_of.get(function)
        if known is None:
            known = [
                (module, call)
                for module in self.project.calling.get(function, ())
                for call in module.calls[function]
                if not module._find_function(call.func)
            ]
            self._calls_of[function] = known
        return known

    def _evaluate_fixture(self, name: str, depth: int) -> list[Value]:
        """Return the values that pytest passes for the parameter of a test."""
        values: list[Value] = []
        for module in self.project.defining.get(name, ()):
            values += module._evaluate_returned(name, depth)
        for module in self.project.calling.get("parametrize", ()):
            for call in module.calls["parametrize"]:
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
            return [_split(each) for each in _without_self(self._evaluate(source, depth))]
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "join" and node.args and isinstance(base, ast.Constant):
            separator = str(base.value)
            lists = _without_self(self._evaluate(node.args[0], depth))
            return [each if isinstance(each, str) else separator.join(each) for each in lists]
        if name == "format" and isinstance(node.func, ast.Attribute):
            texts = _without_self(self._evaluate(node.func.value, depth))
            return [re.sub(r"\{[^{}]*\}", UNKNOWN, each) for each in texts if isinstance(each, str)]
        return self._evaluate_function(name, depth)

    def _evaluate_function(self, name: str, depth: int) -> list[Value]:
        """Return what a function returns, if one of the modules defines it."""
        defining = self.project.defining.get(name, ())
        if not defining:
            return [UNKNOWN]
        return [value for module in defining for value in module._evaluate_returned(name, depth)]

    def _evaluate_returned(self, name: str, depth: int) -> list[Value]:
        if (name, "") in self.visiting:
            self.project.cycles += 1
            return [f"{_SELF}{name}()"]
        self.visiting.add((name, ""))
        try:
            values: list[Value] = []
            for function in self.functions.get(name, ()):
                for each in ast.walk(function):
                    if isinstance(each, ast.Return | ast.Yield) and each.value is not None:
                        values += self._evaluate(each.value, depth)
            return [each for each in values if each != f"{_SELF}{name}()"]
        finally:
            self.visiting.discard((name, ""))

    @staticmethod
    def _join(parts: list[list[Value]]) -> list[Value]:
        """Return the texts that consist of one value of each part."""
        texts: list[Value] = [""]
        for part in parts:
            known = [each if isinstance(each, str) else UNKNOWN for each in _without_self(part)]
            texts = _limit([f"{text}{each}" for text in texts for each in known or [UNKNOWN]])
        return texts


def _limit(values: list[Value]) -> list[Value]:
    """Return values, of which the rest counts as unknown if there are too many."""
    values = list(dict.fromkeys(values))
    # The last one may be what was left out of another expression.
    return values if len(values) <= MAX_VALUES + 1 else [*values[:MAX_VALUES], UNKNOWN]


def _without_self(values: list[Value]) -> list[Value]:
    """Return values, of which those that refer to themselves are unknown."""
    return [
        UNKNOWN if isinstance(each, str) and each.startswith(_SELF) else each for each in values
    ]


def _add(one: Value, other: Value) -> Value:
    """Return a text or a list of words after another one."""
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    first = (one,) if isinstance(one, str) else one
    if other == UNKNOWN:
        return (*first, *_MORE_WORDS)
    return (*first, *((other,) if isinstance(other, str) else other))


def _list_parts(node: ast.AST) -> set[str]:
    """Return the names of what an expression is, or contains without a copy."""
    match node:
        case ast.Name() | ast.Attribute():
            return {get_base_name(node)}
        case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
            return _list_parts(inner)
        case ast.IfExp(body=body, orelse=other):
            return _list_parts(body) | _list_parts(other)
        case ast.BoolOp(values=items) | ast.List(elts=items) | ast.Tuple(elts=items):
            return {name for item in items for name in _list_parts(item)}
        case ast.Dict(values=items):
            return {name for item in items for name in _list_parts(item)}
    return set()


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
