"""Find the scopes of Python code in which a rename would join two names."""

from __future__ import annotations

from symtable import SymbolTable, symtable


def find_conflict(before: str, after: str, name: str, new_name: str) -> str:
    """Return where a renamed name would mean what another name means already.

    Args:
        before: The text of a file.
        after: Its text after the rename.
        name: The old name.
        new_name: The new name.

    Returns:
        ``the module``, ``a function``, or the name of a function or class; empty if there is no
        conflict, or if the text cannot be parsed.
    """
    try:
        old_table = symtable(before, "<before>", "exec")
    # The text may be in another version of Python, contain null characters or be nested deeply.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    try:
        new_table = symtable(after, "<after>", "exec")
    except SyntaxError:  # for example, two parameters of a function would have one name
        return "a function"
    return _compare(old_table, new_table, name, new_name, is_inner=False)


def _compare(
    before: SymbolTable, after: SymbolTable, name: str, new_name: str, *, is_inner: bool
) -> str:
    """Return where names are joined in a scope or in the scopes inside it.

    Args:
        before: The scope.
        after: The scope after the rename.
        name: The old name.
        new_name: The new name.
        is_inner: Whether the renamed name is defined in a scope around this one.
    """
    names = before.get_identifiers()
    is_renamed = name in names and name not in after.get_identifiers()
    if new_name in names:
        # A name of this scope itself hides the renamed one, which is not used here.
        is_hidden = before.lookup(new_name).is_local()
        if is_renamed or (is_inner and not is_hidden):
            return "the module" if before.get_type() == "module" else before.get_name()
    # The names of a class are not visible in its methods.
    is_defined = is_renamed and before.lookup(name).is_local() and before.get_type() != "class"
    # The rename changes neither the number of the scopes nor their order.
    for inner, inner_after in zip(before.get_children(), after.get_children(), strict=False):
        found = _compare(inner, inner_after, name, new_name, is_inner=is_inner or is_defined)
        if found:
            return found
    return ""
