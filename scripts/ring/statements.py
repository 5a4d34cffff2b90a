"""Cuts a text into CQL statements, and lays rows out as a table. Knows no driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

# What may hold a semicolon that ends nothing: strings, quoted names, comments. A doubled quote is two strings.
TOKENS = re.compile(
    r"""
    (?P<comment> --[^\n]* | //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<text> '[^']*(?:'|\Z) | "[^"]*(?:"|\Z) | \$\$.*?(?:\$\$|\Z) )
    | (?P<end> ; )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
BATCH = re.compile(r"BEGIN\b.*\bBATCH\b", re.IGNORECASE | re.DOTALL)
APPLY = re.compile(r"\bAPPLY\s+BATCH$", re.IGNORECASE)


def split(text: str) -> list[str]:
    """The statements of `text`, without comments and semicolons; a batch is one."""
    statements: list[str] = []
    open_batch = ""
    for part in filter(None, _parts(text)):
        whole = f"{open_batch}; {part}" if open_batch else part
        if BATCH.match(whole) and not APPLY.search(whole):
            open_batch = whole
        else:
            open_batch = ""
            statements.append(whole)
    return [*statements, open_batch] if open_batch else statements


def is_complete(text: str) -> bool:
    """Whether a prompt may send `text`: its last token is a semicolon, and no batch is open."""
    kinds = [match.lastgroup for match in TOKENS.finditer(text) if not match[0].isspace()]
    return bool(kinds) and kinds[-1] == "end" and all(APPLY.search(s) or not BATCH.match(s) for s in split(text))


def _parts(text: str) -> Iterator[str]:
    collected = ""
    for match in TOKENS.finditer(text):
        if match.lastgroup == "end":
            yield collected.strip()
            collected = ""
        else:
            collected += " " if match.lastgroup == "comment" else match[0]
    yield collected.strip()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns of equal width, a rule below their names, and how many rows there are."""
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    count = len(cells) - 1
    return "\n".join([*lines, f"({count} row{'' if count == 1 else 's'})"])


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    text = str(value)
    return text if text.isprintable() else repr(text)[1:-1]
