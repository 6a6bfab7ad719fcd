"""Find where a Python module changes a list, or a text, after it has assigned it to a name.

``words = ["git"]`` and ``words.append("push")`` one after the other make one certain command. A
change in a branch, in a loop, or after another use of the name may happen or not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None
Assignment = ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign

_ADDS: dict[str, Literal["append", "extend"]] = {"append": "append", "extend": "extend"}
_OTHER = frozenset("insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__".split())


class Change(NamedTuple):
    """A change of a list or a text.

    Attributes:
        kind: "append" for one more word, "extend" for more words or more text, "insert" for a word
            at the beginning, "other" for anything else.
        value: What is added; ``None`` if nothing is, or if it is not known.
        scope: The function that contains the change.
    """

    kind: Literal["append", "extend", "insert", "other"]
    value: ast.expr | None
    scope: Scope


class Changes:
    """The changes in a module.

    Args:
        tree: The module.

    Attributes:
        certain: The changes that follow an assignment at once, by the expression that is assigned.
        possible: All other changes, by the name.
        scopes: The functions that contain assignments to a name, by the name.
        shared: The names that functions declare as global or nonlocal.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.certain: dict[ast.expr, list[Change]] = {}
        self.possible: dict[str, list[Change]] = {}
        self.scopes: dict[str, list[tuple[ast.expr, Scope]]] = {}
        self.shared: set[str] = set()
        self._users: dict[ast.AST, Scope] = {}
        self._seen: set[ast.AST] = set()
        self._read_block(tree.body, None)
        self._read_rest(tree, None)

    def list_for(self, name: str, value: ast.expr) -> list[Change]:
        """Return the possible changes of what one assignment assigns to a name."""
        changes = self.possible.get(name, [])
        for node, scope in self.scopes.get(name, ()):
            if node is value:
                return [each for each in changes if self._concerns(each, name, scope)]
        # The variable of a loop has no assignment.
        return changes

    def list_in(self, name: str, function: str) -> list[Change]:
        """Return the possible changes of a parameter of a function."""
        changes = self.possible.get(name, ())
        return [
            each
            for each in changes
            if isinstance(each.scope, ast.Lambda)
            or each.scope is None
            or each.scope.name == function
            or not self._is_local(name, each.scope)
        ]

    def find_scope(self, node: ast.Name) -> Scope:
        """Return the function of which a name is a variable; ``None`` if it may be another one."""
        scope = self._users.get(node)
        is_local = node.id not in self.shared and self._is_local(node.id, scope)
        return scope if is_local else None

    def is_in_scope(self, name: str, value: ast.expr, scope: Scope) -> bool:
        """Return whether an assignment of a value to a name may be one in a function."""
        known = [each for node, each in self.scopes.get(name, ()) if node is value]
        return not known or scope in known

    def _concerns(self, change: Change, name: str, scope: Scope) -> bool:
        if change.scope is scope or name in self.shared:
            return True
        return not self._is_local(name, change.scope)

    def _is_local(self, name: str, scope: Scope) -> bool:
        """Return whether a name is a variable of a function."""
        if scope is None:
            return False
        parameters = (each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg))
        assigned = any(each is scope for _, each in self.scopes.get(name, ()))
        return assigned or name in parameters

    def _read_block(self, block: Sequence[ast.stmt], scope: Scope) -> None:
        """Read statements that run one after the other, and the blocks in them."""
        latest: dict[str, ast.expr] = {}
        for statement in block:
            name, change = read_change(statement, scope)
            if change is not None:
                self._seen |= set(ast.walk(statement))
                value = latest.get(name)
                is_known = change.kind in ("append", "extend") and change.value is not None
                if value is not None and is_known and name not in _names_in(change.value):
                    self.certain.setdefault(value, []).append(change)
                    continue
                self.possible.setdefault(name, []).append(change)
            for used in _names_in(statement):
                latest.pop(used, None)
            if isinstance(statement, ast.Assign | ast.AnnAssign) and change is None:
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                targets = targets or [statement.target]  # type: ignore[union-attr]
                for target in targets:
                    # Two attributes with the same name may be those of two objects.
                    if statement.value is not None and isinstance(target, ast.Name):
                        latest[target.id] = statement.value
            self._read_inner(statement, scope)

    def _read_inner(self, statement: ast.stmt, scope: Scope) -> None:
        inner = (
            statement if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        )
        if isinstance(statement, ast.Global | ast.Nonlocal):
            self.shared.update(statement.names)
        for field in ("body", "orelse", "finalbody"):
            self._read_block(getattr(statement, field, ()), inner)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            self._read_block(part.body, inner)

    def _read_rest(self, node: ast.AST, scope: Scope) -> None:
        """Read the assignments, and the changes that are parts of other statements."""
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                inner = child
            if isinstance(child, ast.Name) and scope is not None:
                self._users[child] = scope
            if isinstance(child, Assignment) and child.value is not None:
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                for target in targets:
                    for name in _names_in(target):
                        self.scopes.setdefault(name, []).append((child.value, scope))
            if isinstance(child, ast.Call) and child not in self._seen:
                name, change = _read_call(child, scope)
                if change is not None:
                    # Its result may be used, so that when it happens is not followed.
                    self.possible.setdefault(name, []).append(change)
            self._read_rest(child, inner)


def read_change(statement: ast.stmt, scope: Scope = None) -> tuple[str, Change | None]:
    """Return the name and the change if a statement changes a list or a text.

    Args:
        statement: The statement.
        scope: The function that contains it.
    """
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return _read_call(call, scope)
        case ast.AugAssign(target=target, op=ast.Add(), value=value):
            kind: Literal["extend", "other"] = "other"
            if not isinstance(target, ast.Subscript):
                kind = "extend"
            return get_base_name(target), Change(kind, value, scope)
        case ast.AugAssign(target=target):
            return get_base_name(target), Change("other", None, scope)
        case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Add(), right=right)):
            # `words = words + ["push"]`
            if isinstance(target, ast.Name | ast.Attribute) and ast.dump(left) == _as_load(target):
                return get_base_name(target), Change("extend", right, scope)
    for target in _list_targets(statement):
        if isinstance(target, ast.Subscript):
            return get_base_name(target), Change("other", None, scope)
    return "", None


def _list_targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign | ast.Delete):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) else []


def _as_load(target: ast.Name | ast.Attribute) -> str:
    """Return the dump of an expression as it would be if it was read."""
    return ast.dump(target).replace("Store()", "Load()")


def _read_call(call: ast.Call, scope: Scope) -> tuple[str, Change | None]:
    if not isinstance(call.func, ast.Attribute):
        return "", None
    method = call.func.attr
    name = get_base_name(call.func.value)
    arguments = call.args
    # `list.append(words, "push")`
    is_unbound = name == "list" and bool(arguments)
    if is_unbound:
        name = get_base_name(arguments[0])
        arguments = arguments[1:]
    if method in _ADDS and len(arguments) == 1 and not call.keywords:
        if isinstance(arguments[0], ast.Starred) or isinstance(call.func.value, ast.Subscript):
            return name, Change("other", None, scope)
        return name, Change(_ADDS[method], arguments[0], scope)
    if method == "insert" and len(arguments) == 2:
        return name, Change("insert", arguments[1], scope)
    if method in _ADDS or method in _OTHER:
        return name, Change("other", None, scope)
    return "", None


def get_base_name(node: ast.AST) -> str:
    """Return the name of a variable or an attribute, also of one with an index: `x[0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _names_in(node: ast.AST | None) -> Iterator[str]:
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.Name | ast.Attribute):
            yield get_base_name(each)
