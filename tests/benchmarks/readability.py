"""Print how readable the repository is: figures of the code, or random sentences to judge.

    python tests/benchmarks/readability.py figures
    python tests/benchmarks/readability.py sentences 200 --seed 1

The figures count what makes code hard to read; look at several of them at once, because each alone
can be met by making the code worse. The sentences are drawn from pages, docstrings, messages and
comments, so that somebody who did not write them can judge which of them need rewriting.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_BRANCHES = 10
MAX_COLUMNS = 100
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.match_case,
    ast.comprehension,
)
NOT_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def list_packages() -> list[Path]:
    """Return the folders of all packages."""
    plugins = [*ROOT.glob("plugins/*/hilum_*"), *ROOT.glob("contrib/*/hilum_*")]
    return [ROOT / "kernel" / "hilum", *sorted(path for path in plugins if path.is_dir())]


def list_sources(package: Path) -> list[Path]:
    """Return the Python files of a package, without the project that the demo works on."""
    return sorted(path for path in package.rglob("*.py") if "demo_project" not in path.parts)


def find_docstring(node: ast.AST) -> ast.Expr | None:
    """Return the statement that is the docstring of a module, class or function."""
    if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
        return None
    if ast.get_docstring(node, clean=False) is None:
        return None
    first = node.body[0]
    return first if isinstance(first, ast.Expr) else None


def find_code_lines(text: str, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines with code: no blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        docstring = find_docstring(node)
        if docstring is not None:
            lines -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return lines


def walk_function(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions and classes in it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        yield node
        yield from walk_function(node)


def count_branches(function: ast.AST) -> int:
    """Return the number of ways through a function, roughly (McCabe, with boolean operators)."""
    count = 1
    for node in walk_function(function):
        count += isinstance(node, BRANCHES)
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        if isinstance(node, ast.comprehension):
            count += len(node.ifs)
    return count


def is_tuple_assignment(node: ast.AST) -> bool:
    """Return whether a statement is like ``a, b = x, y``."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def measure_package(package: Path) -> Counter[str]:
    """Return the counts of a package."""
    counts: Counter[str] = Counter()
    for path in list_sources(package):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        rows = text.splitlines()
        lines = find_code_lines(text, tree)
        counts["code"] += len(lines)
        counts["wide"] += sum(len(rows[number - 1]) > MAX_COLUMNS for number in lines)
        counts["skip"] += text.count("# fmt: skip")
        counts["comments"] += sum(
            token.type == tokenize.COMMENT
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
        )
        for node in ast.walk(tree):
            counts["nodes"] += isinstance(node, ast.expr)
            counts["tuples"] += is_tuple_assignment(node)
            if isinstance(node, FUNCTIONS):
                counts["functions"] += 1
                counts["branchy"] += count_branches(node) > MAX_BRANCHES
                counts["lazy"] += sum(
                    isinstance(inner, ast.Import | ast.ImportFrom) for inner in walk_function(node)
                )
    return counts


def find_arrows() -> dict[str, set[str]]:
    """Return the plugins that each plugin imports."""
    arrows: dict[str, set[str]] = {}
    for package in list_packages()[1:]:
        imported = set()
        for path in list_sources(package):
            text = path.read_text(encoding="utf-8")
            imported |= set(re.findall(r"^\s*(?:from|import) (hilum_\w+)", text, re.MULTILINE))
        arrows[package.name] = imported - {package.name}
    return arrows


def format_counts(name: str, counts: Counter[str]) -> str:
    """Return one row of the table."""
    code = max(counts["code"], 1)
    functions = max(counts["functions"], 1)
    return (
        f"{name:18} {counts['code']:6} {counts['nodes']:7} {counts['nodes'] / code:6.2f}"
        f" {counts['branchy'] / functions:7.1%} {counts['lazy'] * 1000 / code:6.1f}"
        f" {counts['tuples']:6} {counts['skip']:5} {counts['wide'] / code:6.2%}"
        f" {counts['comments'] * 100 / code:9.1f}"
    )


def print_figures() -> None:
    """Print the figures of each package and of all."""
    print(
        f"{'package':18} {'code':>6} {'nodes':>7} {'/line':>6} {'branchy':>7} {'lazy/k':>6}"
        f" {'tuples':>6} {'skip':>5} {'>100':>6} {'comm/100':>9}"
    )
    total: Counter[str] = Counter()
    for package in list_packages():
        counts = measure_package(package)
        total.update(counts)
        print(format_counts(package.name, counts))
    print(format_counts("all", total))
    arrows = find_arrows()
    needing_guard = sorted(name for name, targets in arrows.items() if "hilum_guard" in targets)
    projects = [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")]
    print(f"\ndistributions: {len(projects) + 1}")
    print(f"arrows between plugins: {sum(len(targets) for targets in arrows.values())}")
    for name, targets in arrows.items():
        if targets:
            print(f"  {name} -> {', '.join(sorted(targets))}")
    print(f"plugins that need the guard: {', '.join(needing_guard)}")


# --- sentences ------------------------------------------------------------------------------------


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text that have at least five words."""
    flat = " ".join(text.split())
    parts = re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\[])", flat)
    return [part for part in parts if len(part.split()) >= 5]


def read_page_sentences(path: Path) -> list[str]:
    """Return the sentences of a Markdown page, without code blocks and headings."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    blocks = re.split(r"\n\s*\n|\n(?=[-*#\d])|\||\n(?=\|)", text)
    return [
        sentence
        for block in blocks
        if not block.lstrip().startswith("#")
        for sentence in split_sentences(block)
    ]


def read_comments(text: str) -> list[str]:
    """Return the comments of a source; those of consecutive lines are joined."""
    comments: list[str] = []
    last_line = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        content = token.string.lstrip("# ")
        line, column = token.start
        is_alone = not token.line[:column].strip()
        if is_alone and line == last_line + 1 and comments:
            comments[-1] += " " + content
        else:
            comments.append(content)
        last_line = line if is_alone else 0
    marks = ("type:", "noqa", "fmt:", "---", "pragma")
    return [comment for comment in comments if not comment.startswith(marks)]


def read_source_sentences(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the sentences of docstrings, messages and comments, each with its kind."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstrings = set()
    for node in ast.walk(tree):
        docstring = find_docstring(node)
        if docstring is not None:
            docstrings.add(id(docstring.value))
            content = str(ast.literal_eval(docstring.value))
            for part in re.split(r"\n\s*\n|\n\s+(?=\w+: )", content):
                entry = re.sub(r"^\s*\w+: ", "", part)
                yield from (("docstring", sentence) for sentence in split_sentences(entry))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_message = re.match(r"[A-Z][a-z].* .*[a-z]\.", node.value) is not None
            if is_message and id(node) not in docstrings:
                yield from (("message", sentence) for sentence in split_sentences(node.value))
    for comment in read_comments(text):
        yield from (("comment", sentence) for sentence in split_sentences(comment))


def print_sentences(count: int, seed: int) -> None:
    """Print random sentences, a quarter of each kind, each with its file."""
    found: dict[str, list[tuple[str, str]]] = {
        "page": [],
        "docstring": [],
        "message": [],
        "comment": [],
    }
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        name = str(page.relative_to(ROOT))
        found["page"] += [(name, sentence) for sentence in read_page_sentences(page)]
    for package in list_packages():
        for path in list_sources(package):
            for kind, sentence in read_source_sentences(path):
                found[kind].append((str(path.relative_to(ROOT)), sentence))
    chance = random.Random(seed)
    number = 0
    for kind, sentences in found.items():
        for name, sentence in chance.sample(sentences, count // len(found)):
            number += 1
            print(f"{number}. [{kind}, {name}] {sentence}")


def main() -> None:
    """Read the arguments and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("figures")
    sentences = commands.add_parser("sentences")
    sentences.add_argument("count", type=int)
    sentences.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.command == "figures":
        print_figures()
    else:
        print_sentences(options.count, options.seed)


if __name__ == "__main__":
    main()
