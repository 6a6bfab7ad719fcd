"""Parses and runs JavaScript with JSX, without Node.js.

tree-sitter parses the code, which is also how imports, exports and JSX are translated; QuickJS runs it,
without access to files or processes. Importing this module imports both.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import quickjs  # type: ignore[import-untyped]
import tree_sitter_javascript
from tree_sitter import Language, Node, Parser

from hilum_eval.checking.python_code import Raised

_PARSER = Parser(Language(tree_sitter_javascript.language()))
_TIME_LIMIT = 5  # seconds
_MEMORY_LIMIT = 256 * 1024 * 1024
_SUFFIXES = ("", ".js", ".jsx", ".mjs", "/index.js", "/index.jsx")

# The part of React that a function component needs. `render` calls components until only elements
# remain.
_RUNTIME = """
const __modules = {}, __loaded = {};
const React = {
  Fragment: 'fragment',
  createElement(type, props, ...children) {
    return {type, props: Object.assign({}, props), children: children.flat(Infinity)};
  },
  memo: (component) => component,
  forwardRef: (component) => (props) => component(props, null),
  useState: (value) => [typeof value === 'function' ? value() : value, () => {}],
  useMemo: (make) => make(), useCallback: (call) => call, useRef: (value) => ({current: value}),
  useEffect() {}, useId: () => 'id',
};
React.default = React;
function __require(name) {
  if (name === 'react') return React;
  if (!(name in __modules)) {
    if (name.endsWith('.css')) return {};
    throw new Error('Cannot find module ' + name);
  }
  if (!(name in __loaded)) { __loaded[name] = {}; __modules[name](__loaded[name]); }
  return __loaded[name];
}
function render(node) {
  if (node === null || node === undefined || typeof node === 'boolean') return [];
  if (Array.isArray(node)) return node.flatMap(render);
  if (typeof node !== 'object') return [String(node)];
  const given = node.children.length ? node.children : [node.props.children ?? []].flat(Infinity);
  if (typeof node.type === 'function') {
    const defaults = node.type.defaultProps ?? {};
    const set = Object.fromEntries(Object.entries(node.props).filter((each) => each[1] !== undefined));
    const children = given.length === 0 ? undefined : given.length === 1 ? given[0] : given;
    const props = {...defaults, ...set};
    if (children !== undefined) props.children = children;
    return render(node.type(props));
  }
  const children = given.flatMap(render);
  if (node.type === 'fragment') return children;
  return [{tag: node.type, props: node.props, text: children.map((c) => c.text ?? c).join(''), children}];
}
"""


def parse_errors(path: Path) -> list[int]:
    """Return the lines at which a file is no valid JavaScript, counted from 1."""
    root = _PARSER.parse(path.read_bytes()).root_node
    return [node.start_point[0] + 1 for node in _walk(root) if node.is_error or node.is_missing]


def find_imports(path: Path) -> dict[str, list[str]]:
    """Return what a file imports.

    Returns:
        The local names by the text of the source, such as ``./Button``. A default import is named
        ``default as NAME``, all exports ``* as NAME``.
    """
    imports: dict[str, list[str]] = {}
    root = _PARSER.parse(path.read_bytes()).root_node
    for node in root.named_children:
        if node.type == "import_statement":
            names = [f"{name} as {local}" for name, local in _imported_names(node)]
            imports.setdefault(_source(node), []).extend(names)
    return imports


def evaluate_javascript(root: Path, expressions: Sequence[str], **imports: str) -> list[Any]:
    """Evaluate expressions with the code of the workspace.

    Args:
        root: The folder of the project.
        expressions: The expressions. ``render`` renders an element of React to plain data: ``tag``,
            ``props``, ``text`` and ``children``.
        **imports: Relative paths of modules, by the names under which the expressions use them.

    Returns:
        A value for each expression, as JSON represents it, or ``Raised``.
    """
    context = quickjs.Context()
    context.set_time_limit(_TIME_LIMIT)
    context.set_memory_limit(_MEMORY_LIMIT)
    results: list[Any] = []
    try:
        context.eval(_RUNTIME)
        for name, code in _translate_all(root, list(imports.values())).items():
            context.eval(f"__modules[{json.dumps(name)}] = function (exports) {{\n{code}\n}};")
        for name, path in imports.items():
            context.eval(f"var {name} = __require({json.dumps(path)});")
    except (quickjs.JSException, OSError, ValueError) as error:
        return [Raised(type(error).__name__, str(error))] * len(expressions)
    for expression in expressions:
        try:
            text = context.eval(f"JSON.stringify(({expression}) ?? null)")
            results.append(json.loads(text))
        except (quickjs.JSException, TypeError) as error:
            results.append(Raised(type(error).__name__, str(error)))
    return results


def _translate_all(root: Path, paths: list[str]) -> Mapping[str, str]:
    """Return the code of modules and of all that they import, as bodies of functions."""
    modules: dict[str, str] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path in modules:
            continue
        code, imported = _translate((root / path).read_bytes(), path, root)
        modules[path] = code
        waiting.extend(imported)
    return modules


def _translate(source: bytes, path: str, root: Path) -> tuple[str, list[str]]:
    tree = _PARSER.parse(source).root_node
    if tree.has_error:
        raise ValueError(f"{path} is no valid JavaScript")
    imported: list[str] = []
    lines: list[str] = []
    last: list[str] = []
    for node in tree.named_children:
        if node.type == "import_statement":
            target = _resolve(_source(node), path, root)
            if target.endswith((".js", ".jsx", ".mjs")):
                imported.append(target)
            lines.append(_import_code(node, target))
        elif node.type == "export_statement":
            before, after = _export_code(node, path, root, imported)
            lines.append(before)
            last.append(after)
        else:
            lines.append(_code(node))
    return "\n".join([*lines, *last]), imported


def _resolve(source: str, path: str, root: Path) -> str:
    if not source.startswith("."):
        return source
    base = posixpath.normpath(posixpath.join(posixpath.dirname(path), source))
    for suffix in _SUFFIXES:
        if (root / (base + suffix)).is_file():
            return base + suffix
    return base


def _source(node: Node) -> str:
    source = node.child_by_field_name("source")
    return _text(source)[1:-1] if source else ""


def _imported_names(node: Node) -> Iterator[tuple[str, str]]:
    """Yield pairs of an exported name and its local name."""
    for clause in node.named_children:
        if clause.type != "import_clause":
            continue
        for part in clause.named_children:
            if part.type == "identifier":
                yield "default", _text(part)
            elif part.type == "namespace_import":
                yield "*", _text(part.named_children[0])
            else:
                for each in part.named_children:
                    if each.type == "import_specifier":
                        name = each.child_by_field_name("name")
                        alias = each.child_by_field_name("alias") or name
                        if name and alias:
                            yield _text(name), _text(alias)


def _import_code(node: Node, target: str) -> str:
    module = f"__require({json.dumps(target)})"
    lines = [
        f"const {local} = {module};" if name == "*" else f"const {local} = {module}.{name};"
        for name, local in _imported_names(node)
    ]
    return "\n".join(lines) or f"{module};"


def _export_code(node: Node, path: str, root: Path, imported: list[str]) -> tuple[str, str]:
    """Return the code of an export statement: the declaration, and the assignments at the end."""
    default = any(child.type == "default" for child in node.children)
    declaration = node.child_by_field_name("declaration")
    value = node.child_by_field_name("value")
    if default and value:
        return f"exports.default = {_code(value)};", ""
    if default and declaration:
        name = declaration.child_by_field_name("name")
        if name is None:
            return f"exports.default = {_code(declaration)};", ""
        return _code(declaration), f"exports.default = {_text(name)};"
    if declaration:
        names = [_text(name) for name in _declared_names(declaration)]
        return _code(declaration), "\n".join(f"exports.{name} = {name};" for name in names)
    source = _source(node)
    target = ""
    if source:
        target = _resolve(source, path, root)
        imported.append(target)
    lines = []
    for clause in node.named_children:
        if clause.type != "export_clause":
            continue
        for each in clause.named_children:
            name = each.child_by_field_name("name")
            alias = each.child_by_field_name("alias") or name
            if name and alias:
                value_code = (
                    f"__require({json.dumps(target)}).{_text(name)}" if target else _text(name)
                )
                lines.append(f"exports.{_text(alias)} = {value_code};")
    return "", "\n".join(lines)


def _declared_names(declaration: Node) -> Iterator[Node]:
    name = declaration.child_by_field_name("name")
    if name:
        yield name
    for child in declaration.named_children:
        if child.type == "variable_declarator":
            name = child.child_by_field_name("name")
            if name:
                yield name


def _code(node: Node) -> str:
    """Return the code of a node, with JSX as calls of ``React.createElement``."""
    if node.type in ("jsx_element", "jsx_self_closing_element", "jsx_fragment"):
        return _element_code(node)
    if not node.children:
        return _text(node)
    source = node.text or b""
    parts: list[bytes] = []
    position = node.start_byte
    for child in node.children:
        parts.append(source[position - node.start_byte : child.start_byte - node.start_byte])
        parts.append(_code(child).encode())
        position = child.end_byte
    parts.append(source[position - node.start_byte :])
    return b"".join(parts).decode()


def _element_code(node: Node) -> str:
    opening = node.child_by_field_name("open_tag") or node
    if node.type == "jsx_self_closing_element":
        opening = node
    name_node = opening.child_by_field_name("name")
    name = _text(name_node) if name_node else ""
    closing = node.child_by_field_name("close_tag")
    if closing is not None:
        closing_name = closing.child_by_field_name("name")
        if (_text(closing_name) if closing_name else "") != name:
            raise ValueError(f"<{name}> is closed by {_text(closing)}")
    component = name[:1].isupper() or "." in name
    tag = (name if component else json.dumps(name)) if name else "React.Fragment"
    props = ", ".join(_attributes(opening))
    children = [code for child in node.named_children for code in _child_code(child)]
    return f"React.createElement({', '.join([tag, '{' + props + '}', *children])})"


def _attributes(opening: Node) -> Iterator[str]:
    for attribute in opening.named_children:
        if attribute.type not in ("jsx_attribute", "jsx_expression"):
            continue
        if attribute.type == "jsx_expression":
            # A spread: {...rest}.
            yield _code(attribute)[1:-1]
            continue
        name = json.dumps(_text(attribute.named_children[0]))
        if len(attribute.named_children) == 1:
            yield f"{name}: true"
            continue
        value = attribute.named_children[1]
        code = _code(value)
        yield f"{name}: {code[1:-1] if value.type == 'jsx_expression' else code}"


def _child_code(child: Node) -> Iterator[str]:
    if child.type in ("jsx_opening_element", "jsx_closing_element"):
        return
    if child.type == "jsx_text":
        text = _text(child)
        lines = text.split("\n")
        # Line breaks do not count, and neither do the spaces around them, as in React.
        lines[1:] = [line.lstrip() for line in lines[1:]]
        lines[:-1] = [line.rstrip() for line in lines[:-1]]
        text = " ".join(line for line in lines if line)
        if text:
            yield json.dumps(text)
    elif child.type == "jsx_expression":
        code = _code(child)[1:-1].strip()
        if code and child.named_children and child.named_children[0].type != "comment":
            yield f"({code})"
    elif child.type in ("jsx_element", "jsx_self_closing_element", "jsx_fragment"):
        yield _element_code(child)
    elif child.type == "html_character_reference":
        yield json.dumps(_text(child))


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _text(node: Node) -> str:
    return (node.text or b"").decode()
