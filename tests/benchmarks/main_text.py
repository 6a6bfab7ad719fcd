"""How much of the main text of real documentation is kept, and how much else comes with it, beside
trafilatura.

The pages are those of Debian's packages of documentation and of two sites that are built by hand,
below one folder::

    apt-get download python3.11-doc python-django-doc ...       # the names in KINDS
    for each in *.deb; do dpkg-deb -x $each FOLDER/${each%%_*}; done
    FOLDER/docusaurus, FOLDER/mkdocs-material   # built by `docusaurus build`, `mkdocs build` from some Markdown

Run:
``uv run --with trafilatura==2.3.1 python tests/benchmarks/main_text.py FOLDER [--each N] [--kind NAME] [--show]``.
What is missing is left out. What the main text is, a selector says for each generator, written by
looking at its pages; the extractors do not know it. Counted are, over all pages: words of the main
text that are there (recall) and words that are of the main text (precision), blocks of at least
five words that are there as they are, blocks of code that are there line by line in a fence, rows
of tables on a line of a table, links with their address, headings that are marked as such.
"""

import argparse
import random
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import attrs
from selectolax.lexbor import LexborHTMLParser, LexborNode

SMALLEST, LARGEST = 2_000, 400_000
LEAST_WORDS = 80
PARTS = ("recall", "precision", "blocks", "code", "rows", "links", "heads")
# Of any page no text: marks of headings, what is not shown, buttons.
NEVER = "script, style, noscript, template, svg, button, a.headerlink, a.anchor, a.hash-link, a.selflink, [aria-hidden=true]"
BLOCKS = "p, li, dt, h1, h2, h3, h4, h5, h6, figcaption"
INNER = "p, ul, ol, dl, pre, table, div, li, blockquote"


@attrs.frozen
class Kind:
    """Pages of one generator in one package.

    Args:
        name: The generator.
        folder: The package.
        files: Which of its files.
        main: A selector of the main text.
        neutral: What may be there or not: it counts for nothing.
    """

    name: str
    folder: str
    files: str
    main: str
    neutral: str = ""


KINDS = (
    Kind("Sphinx, classic", "python3.11-doc", "**/library/*.html", "div.body[role=main]"),
    Kind("Sphinx, classic", "cmake-doc", "**/*.html", "div.body[role=main]"),
    Kind("Sphinx, Django", "python-django-doc", "**/html/[rth]*/**/*.html", "#yui-main"),
    Kind("Sphinx, Pallets", "python-flask-doc", "**/*.html", "div.body[role=main]"),
    Kind("Sphinx, Read the Docs", "python-attr-doc", "**/*.html", "div.document[role=main]"),
    Kind("Sphinx, PyData", "python-pandas-doc", "**/html/[ug]*/**/*.html", "main section, main div.section", ".prev-next-area"),
    Kind("Sphinx, SQLAlchemy", "python-sqlalchemy-doc", "**/html/[oc]*/*.html", "#docs-body"),
    Kind("mdBook", "rust-doc", "**/html/[brecu]*-*/**/*.html", "#content main"),
    Kind("mdBook", "rust-doc", "**/html/book/*.html", "#content main"),
    Kind("rustdoc", "rust-doc", "**/html/std/**/*.html", "#main-content, section#main",
         ".out-of-band, .srclink, .sidebar, .notable-traits, .toggle-label, .test-arrow"),
    Kind("Node.js", "nodejs-doc", "**/api/[a-z]*.html", "#apicontent"),
    Kind("Doxygen", "libeigen3-doc", "**/*.html", "div.contents", ".ttc, .dynheader, .levels, .toc, .legend"),
    Kind("Doxygen", "libhdf5-doc", "**/*.html", "div.contents", ".ttc, .dynheader, .levels, .toc, .legend"),
    Kind("MkDocs", "mkdocs-doc", "**/*.html", "[role=main]"),
    Kind("MkDocs Material", "mkdocs-material", "**/*.html", "article.md-content__inner"),
    Kind("Docusaurus", "docusaurus", "docs/**/*.html", "article .markdown", "article footer"),
    Kind("Javadoc", "libcommons-lang3-java-doc", "**/api/org/**/*.html", "main", "footer"),
    Kind("Javadoc", "openjdk-17-doc", "**/api/java.base/java/util/*.html", "main", "footer"),
    Kind("gtk-doc", "libglib2.0-doc", "**/*.html", "div.refentry, div.chapter, div.section", ".toc"),
    Kind("gi-docgen", "libgtk-4-doc", "**/gtk4/[cimv]*.html", "section#main"),
    Kind("DocBook", "postgresql-doc-15", "**/*.html",
         "body > div.refentry, body > div.sect1, body > div.chapter, body > div.appendix", ".toc, .refnamediv"),
    Kind("AsciiDoc", "git-doc", "**/*.html", "#content", "#toc"),
    Kind("AsciiDoc", "gradle-doc", "**/userguide/*.html", "div.content > .chapter, div.chapter", "#toc, .toc"),
    Kind("YARD", "yard-doc", "**/*.html", "#content", "table.source_code, .showSource, #toc"),
    Kind("RDoc", "asciidoctor-doc", "**/*.html", "main[role=main]", ".method-source-code, .method-click-advice, .toc"),
    Kind("Apache", "apache2-doc", "**/en/**/*.html", "#page-content", "#quickview, .seealso, .top, #toc"),
    Kind("Haddock", "libghc-aeson-doc", "**/Data*.html", "#content", "#table-of-contents, #synopsis, .selflink, .link, .show"),
    Kind("SQLite", "sqlite3-doc", "**/sqlite3/[a-z]*.html", "body", ".nosearch, .fancy_toc, .fancy_title, .fancy"),
)  # fmt: skip


@attrs.define
class Truth:
    """What a page's main text is.

    Attributes:
        words: Its words, as often as they are there.
        neutral: Words that count for nothing.
        blocks: Paragraphs, entries of lists and the like, as their words.
        code: Blocks of code, as their lines.
        rows: Rows of tables, as their words.
        links: Addresses.
        heads: Headings, as their words.
    """

    words: Counter[str]
    neutral: Counter[str]
    blocks: list[str]
    code: list[str]
    rows: list[str]
    links: list[str]
    heads: list[str]


def spoken(text: str) -> str:
    """Give the words of a text, with one space between them."""
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def lines(code: str) -> str:
    """Give the lines of a block of code without what nobody sees."""
    return textwrap.dedent(
        "\n".join(line.rstrip() for line in code.expandtabs().split("\n") if line.strip())
    )


def truth(data: bytes, url: str, kind: Kind) -> Truth | None:
    """Read the main text of a page; none where it holds little."""
    tree = LexborHTMLParser(data)
    for each in tree.css(NEVER):
        if each.parent is not None and each.tag not in ("body", "html"):
            each.decompose()
    roots: list[LexborNode] = []
    for node in tree.css(kind.main):
        if not any(within(node, root) for root in roots):
            roots.append(node)
    neutral: Counter[str] = Counter()
    for root in roots:
        for each in root.css(kind.neutral) if kind.neutral else ():
            if each.parent is not None:
                neutral.update(spoken(each.text(separator=" ")).split())
                each.decompose()
    found = Truth(Counter(), neutral, [], [], [], [], [])
    for root in roots:
        found.words.update(spoken(text_of(root)).split())
        for node in root.css("pre br"):
            node.replace_with("\n")
        for node in root.css("pre"):
            if (
                (code := lines(node.text()))
                and not re.fullmatch(r"[\d\s]+", code)
                and len(node.css("table, pre")) == 1
            ):
                found.code.append(code)
        for node in root.css(BLOCKS):
            if node.css_first(INNER) is None or node.tag == "p":
                words = spoken(text_of(node))
                if words.count(" ") >= 4:
                    found.blocks.append(words)
        for node in root.css("tr"):
            cells = [spoken(text_of(each)) for each in node.iter() if each.tag in ("td", "th")]
            if (
                sum(map(bool, cells)) > 1
                and node.css_first("table, pre, ul, ol, dl, p + p") is None
            ):
                found.rows.append(" ".join(filter(None, cells)))
        for node in root.css("a[href]"):
            target, fragment = urldefrag(urljoin(url, (node.attributes["href"] or "").strip()))
            if (
                node.text().strip()
                and target.startswith("http")
                and not (fragment and target == urldefrag(url)[0])
            ):
                found.links.append(target + ("#" + fragment if fragment else ""))
        for node in root.css("h1, h2, h3, h4, h5, h6"):
            if words := spoken(text_of(node)):
                found.heads.append(words)
    return found if found.words.total() >= LEAST_WORDS else None


def within(node: LexborNode, root: LexborNode) -> bool:
    """Whether a node is a root, or below it."""
    each: LexborNode | None = node
    while each is not None:
        if each.mem_id == root.mem_id:
            return True
        each = each.parent
    return False


INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code del dfn em font i ins kbd label mark q s samp small span strike strong sub sup tt u"
    " var wbr -text".split()
)


def text_of(node: LexborNode) -> str:
    """Give the text of a node: blocks are apart, words in several elements are together."""
    parts: list[str] = []

    def walk(each: LexborNode) -> None:
        for child in each.iter(include_text=True):
            if child.tag == "-text":
                parts.append(child.text_content or "")
            elif child.tag in INLINE:
                walk(child)
            else:
                parts.append(" ")
                walk(child)
                parts.append(" ")

    walk(node)
    return "".join(parts)


LINK = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(<?((?:[^()\s<>\\]|\\.|\([^()\s]*\))*)>?(?:\s+\"[^\"]*\")?\)"
)
FENCE = re.compile(r"^([ >]*)(```+|~~~+)[^\n`]*\n(.*?)\n\1\2[ ]*$", re.M | re.S)


def scores(text: str, real: Truth, url: str) -> dict[str, tuple[int, int]]:
    """Count, for each part, what there is and what there should be."""
    fences = {
        lines(re.sub(rf"^[ >]{{{len(head)}}}", "", code, flags=re.M))
        for head, _, code in FENCE.findall(text)
    }
    fences |= {lines(code) for code in re.findall(r"`([^`\n]+)`", text)}
    links = {re.sub(r"\\(.)", r"\1", target) for _, _, target in LINK.findall(text)}
    links |= set(re.findall(r"<(https?://[^>\s]+)>", text))
    links |= {urljoin(url, each) for each in links}
    flat = text
    for _ in range(2):
        flat = LINK.sub(lambda found: "" if found[1] else found[2], flat)
    flat = re.sub(r"<(https?:[^>]*)>", r"\1", re.sub(r"<br ?/?>", " ", flat))
    flat = re.sub(r"\\([^\w\s])", r"\1", flat).replace("*", "").replace("`", "")
    flat = re.sub(r"(?<!\w)__?|__?(?!\w)", "", flat) if "_" in flat else flat
    words = Counter(spoken(flat).split())
    joined = f" {spoken(flat)} "
    rows = Counter(spoken(line) for line in flat.split("\n") if line.lstrip(" >").startswith("|"))
    heads = Counter(spoken(line) for line in flat.split("\n") if line.startswith("#"))
    extra = (words - real.words) - real.neutral
    return {
        "recall": ((words & real.words).total(), real.words.total()),
        "precision": (words.total() - extra.total(), words.total()),
        "blocks": (sum(f" {each} " in joined for each in real.blocks), len(real.blocks)),
        "code": (sum(each in fences for each in real.code), len(real.code)),
        "rows": ((Counter(real.rows) & rows).total(), len(real.rows)),
        "links": (sum(each in links for each in real.links), len(real.links)),
        "heads": ((Counter(real.heads) & heads).total(), len(real.heads)),
    }


def ours(data: bytes, url: str) -> str:
    """Extract with hilum."""
    from hilum_web.reader.charsets import decode
    from hilum_web.reader.markdown import Markdown

    return "".join(text for text, _ in Markdown(decode(data, "text/html"), url).parts())


def theirs(data: bytes, url: str, **options: bool) -> str:
    """Extract with trafilatura, all that it can keep switched on."""
    import trafilatura

    keep = {
        "include_links": True,
        "include_tables": True,
        "include_formatting": True,
        "include_comments": False,
    }
    return trafilatura.extract(data, url=url, output_format="markdown", **keep, **options) or ""


def chosen(
    folder: Path, count: int, only: str, kinds: tuple[Kind, ...]
) -> list[tuple[Kind, Path, Truth]]:
    """Pick pages of each kind, always the same."""
    pages = []
    for kind in kinds:
        if only and only not in (kind.name, kind.folder):
            continue
        files = [
            each
            for each in (folder / kind.folder).glob(kind.files)
            if SMALLEST < each.stat().st_size < LARGEST
        ]
        files = sorted({each.resolve() for each in files})
        random.Random(kind.folder).shuffle(files)
        taken = 0
        for each in files:
            if taken == count:
                break
            if found := truth(each.read_bytes(), address(each, folder), kind):
                pages.append((kind, each, found))
                taken += 1
    return pages


def address(file: Path, folder: Path) -> str:
    """Where a page could be on the web."""
    return f"https://docs.example/{'/'.join(file.parts[-4:])}"


def main() -> None:
    """Print the shares for each kind and extractor, then over all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", type=int, default=6)
    parser.add_argument("--kind", default="")
    parser.add_argument("--show", action="store_true", help="print what is missing, page by page")
    given = parser.parse_args()
    report(chosen(given.folder, given.each, given.kind, KINDS), given.folder, show_each=given.show)


def report(pages: list[tuple[Kind, Path, Truth]], folder: Path, *, show_each: bool = False) -> None:
    """Measure the extractors on pages and print what each keeps."""
    extractors: dict[str, Callable[[bytes, str], str]] = {"hilum": ours}
    try:
        import trafilatura

        extractors[f"trafilatura {trafilatura.__version__}"] = theirs
        extractors["trafilatura, recall"] = lambda data, url: theirs(data, url, favor_recall=True)
    except ImportError:
        print("trafilatura is not installed: hilum alone")
    print(f"{len(pages)} pages of {len({kind.name for kind, _, _ in pages})} generators")
    print(f"{'':24}{'':22}" + "".join(f"{part:>11}" for part in PARTS))
    names = list(dict.fromkeys(kind.name for kind, _, _ in pages))
    total: dict[str, list[dict[str, tuple[int, int]]]] = {name: [] for name in extractors}
    taken = dict.fromkeys(extractors, 0.0)
    for name in names:
        for who, extract in extractors.items():
            rows = []
            for _, file, real in (each for each in pages if each[0].name == name):
                url, data = address(file, folder), file.read_bytes()
                begun = time.process_time()
                text = extract(data, url)
                taken[who] += time.process_time() - begun
                rows.append(scores(text, real, url))
                if show_each and who == "hilum":
                    show(file, text, real, rows[-1])
            total[who] += rows
            print(
                f"{name:24}{who:22}" + "".join(f"{share(rows, part):>11}" for part in PARTS),
                flush=True,
            )
    for who, rows in total.items():
        print(
            f"{'all, each page alike':24}{who:22}"
            + "".join(f"{mean(rows, part):>11}" for part in PARTS)
        )
        poor = sum(row["recall"][0] < 0.9 * row["recall"][1] for row in rows)
        print(
            f"{'':24}{'':22}pages with less than nine tenths of their words: {poor}; {taken[who]:.1f} s of processor time"
        )


def share(rows: list[dict[str, tuple[int, int]]], part: str) -> str:
    """Give what is there of what should be."""
    there, all_of = (sum(row[part][n] for row in rows) for n in (0, 1))
    return f"{there / all_of:.1%}" if all_of else "–"


def mean(rows: list[dict[str, tuple[int, int]]], part: str) -> str:
    """Give the mean over the pages."""
    each = [there / all_of for there, all_of in (row[part] for row in rows) if all_of]
    return f"{sum(each) / len(each):.1%}" if each else "–"


def show(file: Path, text: str, real: Truth, row: dict[str, tuple[int, int]]) -> None:
    """Print what a page lacks."""
    print(
        f"--- {file}",
        {part: f"{there}/{all_of}" for part, (there, all_of) in row.items() if there < all_of},
    )
    words = Counter(spoken(text).split())
    print("    missing:", (real.words - words).most_common(12))
    print("    extra:", ((words - real.words) - real.neutral).most_common(12))


if __name__ == "__main__":
    sys.exit(main())
