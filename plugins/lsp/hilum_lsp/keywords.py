"""Words that programming languages reserve, so that nothing can have them as its name."""

from __future__ import annotations

import keyword

# C23, which reserves the words of all earlier versions, and usual extensions.
_C = frozenset(
    """
    alignas alignof asm auto bool break case char const constexpr continue default do double else
    enum extern false float for goto if inline int long nullptr register restrict return short signed
    sizeof static static_assert struct switch thread_local true typedef typeof typeof_unqual union
    unsigned void volatile while _Alignas _Alignof _Atomic _BitInt _Bool _Complex _Decimal128
    _Decimal32 _Decimal64 _Generic _Imaginary _Noreturn _Static_assert _Thread_local
    """.split()
)
# C++23, with the names of operators.
_CPP = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public register reinterpret_cast requires return short signed
    sizeof static static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()
)
# ECMAScript 2024 in strict mode, which modules and classes always use.
_SCRIPT = frozenset(
    """
    arguments await break case catch class const continue debugger default delete do else enum eval
    export extends false finally for function if implements import in instanceof interface let new
    null package private protected public return static super switch this throw true try typeof var
    void while with yield
    """.split()
)
# TypeScript also rejects its basic types as the names of types.
_TYPED_SCRIPT = _SCRIPT | frozenset(
    "any bigint boolean never number object string symbol undefined unknown".split()
)
_GO = frozenset(
    """
    break case chan const continue default defer else fallthrough for func go goto if import
    interface map package range return select struct switch type var
    """.split()
)
# The 2024 edition, with the words that are reserved for later versions.
_RUST = frozenset(
    """
    abstract as async await become box break const continue crate do dyn else enum extern false final
    fn for gen if impl in let loop macro match mod move mut override priv pub ref return self Self
    static struct super trait true try type typeof unsafe unsized use virtual where while yield
    """.split()
)
_RESERVED = {
    "c": _C,
    # A header may be used by both languages.
    "h": _C | _CPP,
    **dict.fromkeys(("cc", "cpp", "cxx", "hh", "hpp", "hxx"), _CPP),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), _SCRIPT),
    **dict.fromkeys(("ts", "tsx", "mts", "cts"), _TYPED_SCRIPT),
}


def is_keyword(name: str, suffix: str) -> bool:
    """Return whether a name is a keyword of the language of files with a suffix.

    Args:
        name: The name.
        suffix: The suffix, with its dot.
    """
    if suffix in (".py", ".pyi", ".ipynb"):
        return keyword.iskeyword(name) or name == "__debug__"
    return name in _RESERVED.get(suffix.lstrip(".").lower(), _C)
