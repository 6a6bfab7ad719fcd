"""The encodings of pages, as browsers know them."""

from __future__ import annotations

import codecs
import re

# Names that people write for what really is a larger encoding (the Encoding Standard of the WHATWG
# has the list).
_REALLY = {
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
# What that standard knows. Python has more, among them some that take minutes for a page made for
# it (punycode).
_KNOWN = frozenset(
    "utf-8 utf-16 utf-16-le utf-16-be cp866 cp874 cp932 cp949 koi8-r koi8-u mac-roman mac-cyrillic"
    " gb18030 big5hkscs euc_jp iso2022_jp cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257"
    " cp1258 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10"
    " iso8859-13 iso8859-14 iso8859-15 iso8859-16".split()
)
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decode(data: bytes, content_type: str) -> str:
    """Decode a text: by its byte order mark, its header, what HTML says of itself, as UTF-8, at
    last as windows-1252.

    Args:
        data: The body.
        content_type: The header ``Content-Type``.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode(name, errors="replace")
    said = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.I)
    inside = re.search(rb"(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", data[:2048], re.I)
    name = _codec(said[1]) if said else ""
    if name:
        return data.decode(name, errors="replace")
    name = _codec(inside[1].decode("ascii", errors="replace")) if inside else ""
    if name and not name.startswith("utf-16"):  # who can read that it is UTF-16 reads no UTF-16
        return data.decode(name, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _codec(label: str) -> str:
    """Return the name of Python's decoder for what a page calls its encoding.

    Empty where it is none of the web's.
    """
    try:
        name = codecs.lookup(_REALLY.get(label.lower(), label)).name
    except (LookupError, UnicodeError):
        return ""
    return name if name in _KNOWN else ""
