"""Decodes pages as browsers do."""

from __future__ import annotations

import codecs
import re

# Labels that mean another, larger encoding on the web (WHATWG Encoding Standard, section 4.2).
_ALIASES = {
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "big5": "big5hkscs",
    "iso-8859-9": "cp1254",
    "tis-620": "cp874",
    "utf8": "utf-8",
    "unicode": "utf-16",
    "windows-31j": "cp932",
    "windows-949": "cp949",
    "windows-874": "cp874",
    "x-gbk": "gb18030",
    "x-user-defined": "cp1252",
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "x-euc-jp": "euc_jp",
}
# The encodings in the WHATWG Encoding Standard. Python supports more, but some of them, such as
# punycode, take minutes to decode a malicious page.
_KNOWN = frozenset(
    "utf-8 utf-16 utf-16-le utf-16-be cp866 cp874 cp932 cp949 koi8-r koi8-u mac-roman mac-cyrillic"
    " gb18030 big5hkscs euc_jp iso2022_jp cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257"
    " cp1258 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10"
    " iso8859-13 iso8859-14 iso8859-15 iso8859-16".split()
)
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.I)
_IN_PAGE = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", re.I)


def decode(data: bytes, content_type: str) -> str:
    """Decode the body of a page or text file.

    The encoding is determined by the first of these that applies: the byte order mark, the header,
    the encoding declaration in the page, UTF-8, windows-1252.

    Args:
        data: The body.
        content_type: The header ``Content-Type``.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode(name, errors="replace")
    in_header = _IN_HEADER.search(content_type)
    name = _find_codec(in_header[1]) if in_header else ""
    if not name:
        in_page = _IN_PAGE.search(data[:2048])
        name = _find_codec(in_page[1].decode("ascii", errors="replace")) if in_page else ""
        # A page whose encoding declaration is readable as ASCII cannot be UTF-16.
        if name.startswith("utf-16"):
            name = ""
    if name:
        return data.decode(name, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _find_codec(label: str) -> str:
    """Return Python's codec for an encoding label, or "" if the web does not use the encoding."""
    try:
        name = codecs.lookup(_ALIASES.get(label.lower(), label)).name
    except (LookupError, UnicodeError):
        return ""
    return name if name in _KNOWN else ""
