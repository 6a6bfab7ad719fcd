"""Write the table of keys in docs/terminal.md from the table in the code.

With ``--check``, only report whether the page is current.
"""

import re
import sys
from pathlib import Path

from hilum_terminal.key_bindings import keys_table

PAGE = Path(__file__).with_name("terminal.md")
TABLE = re.compile(r"(<!-- Written by docs/make_keys\.py [^\n]*-->\n\n).*?(?=\n\n)", re.DOTALL)


def main() -> int:
    """Write or check the table."""
    before = PAGE.read_text()
    after = TABLE.sub(lambda match: match[1] + keys_table(), before)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(after)
        return 0
    if before != after:
        print("docs/terminal.md is not current: run docs/make_keys.py", file=sys.stderr)
    return int(before != after)


if __name__ == "__main__":
    sys.exit(main())
