"""Builds the site: python3 build.py"""

import html
import re
import string
import sys
from pathlib import Path

ROOT = Path(__file__).parent
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


class BuildError(Exception):
    """A page that cannot be built."""


def read_page(path):
    """Return the fields and the text of a page."""
    head, _, text = path.read_text("utf-8").partition("\n\n")
    fields = {}
    for number, line in enumerate(head.splitlines(), 1):
        name, colon, value = line.partition(":")
        if not colon:
            raise BuildError(f"pages/{path.name}:{number}: {line!r} is no field; expected NAME: VALUE")
        fields[name.strip()] = value.strip()
    return fields, text


def link(match, page):
    """Return a link as HTML."""
    text, target = match.groups()
    if not target.startswith("https:"):
        if not (ROOT / "pages" / target).is_file():
            raise BuildError(f"pages/{page}: the link {match.group()} leads to pages/{target}, which does not exist")
        target = target.removesuffix(".md") + ".html"
    return f'<a href="{html.escape(target)}">{text}</a>'


def build_page(path):
    """Return a page as HTML."""
    fields, text = read_page(path)
    if "template" not in fields:
        raise BuildError(f"pages/{path.name}: the field 'template' is missing")
    template = ROOT / "templates" / f"{fields['template']}.html"
    if not template.is_file():
        names = ", ".join(sorted(each.stem for each in template.parent.glob("*.html")))
        raise BuildError(f"pages/{path.name}: there is no template {fields['template']!r} (there are: {names})")
    body = LINK.sub(lambda match: link(match, path.name), html.escape(text, quote=False))
    try:
        return string.Template(template.read_text("utf-8")).substitute(fields, body=body)
    except KeyError as error:
        raise BuildError(f"pages/{path.name}: templates/{template.name} needs the field {error}") from None


def main():
    """Build all pages; the first mistake ends the build."""
    target = ROOT / "dist"
    pages = sorted((ROOT / "pages").glob("*.md"))
    target.mkdir(exist_ok=True)
    for path in pages:
        try:
            page = build_page(path)
        except BuildError as error:
            sys.exit(f"error: {error}")
        (target / f"{path.stem}.html").write_text(page, "utf-8")
    print(f"built {len(pages)} pages")


if __name__ == "__main__":
    main()
