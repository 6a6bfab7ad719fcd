"""Insert the example files into the pages that include them.

With ``--check``, only report whether the pages are current.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
INCLUDE = re.compile(r"<!-- include: (\S+) -->\n(?:\n```\w+\n.*?```\n)?", re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".txt": "text", ".json": "json"}


def filled(text: str) -> str:
    """Return a page in which each include is followed by the file that it names."""

    def put(match: re.Match[str]) -> str:
        file = DOCS / match[1]
        return (
            f"<!-- include: {match[1]} -->\n\n```{LANGUAGES[file.suffix]}\n{file.read_text()}```\n"
        )

    return INCLUDE.sub(put, text)


def main() -> int:
    """Write or check all pages."""
    stale = []
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        if filled(text) != text:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(filled(text))
    if stale and "--check" in sys.argv:
        print(f"not current: {', '.join(stale)}; run python docs/make_pages.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
