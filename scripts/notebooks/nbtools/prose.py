"""No typed results: a number with a decimal point in the prose is a declared constant or stands in the notebook's outputs."""

import re
from decimal import Decimal, InvalidOperation

from nbtools.generated import STRIP
from nbtools.rules import CONSTANTS, tags, where

# What is not prose, or names something instead of stating a result. Removed in this order.
NOT_PROSE = [
    STRIP,
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^`{3,}\{(?:math|code|code-block|code-cell|figure|image|include)\}.*?^`{3,}\s*$", re.DOTALL | re.MULTILINE),
    re.compile(r"^(?P<fence>`{3,}|~{3,})(?!\{).*?^(?P=fence)\s*$", re.DOTALL | re.MULTILINE),  # code, but not a directive
    re.compile(r"^(?:`{3,}|:{3,}).*$", re.MULTILINE),  # first line of a directive
    re.compile(r"^:[\w-]+:.*$", re.MULTILINE),  # its options
    re.compile(r"\$\$.*?\$\$|\\begin\{(\w+\*?)\}.*?\\end\{\1\}", re.DOTALL),
    re.compile(r"(?<![\\$])\$[^$\n]+(?:\n[^$\n]+)*?\$"),
    re.compile(r"\{[\w:.-]+\}`[^`]*`"),  # roles such as {eq}`eq-17`
    re.compile(r"(`+).+?\1"),
    re.compile(r"\]\([^)]*\)|<https?:[^>]*>|https?://\S+"),
    re.compile(r"(?:§+\s?|\b(?:[Ss]ections?|[Cc]hapters?|[Ff]ig(?:ures?|s?\.)|[Tt]ables?|[Ee]qs?\.|[Aa]ppendix)[ \xa0])"
               r"\(?[A-Z]?\.?\d+(?:\.\d+)*\)?(?:(?:,| and| to|–|-| or)\s?\(?\d+(?:\.\d+)*\)?)*"),
    re.compile(r"\b(?:Python|torch|PyTorch|CUDA|rltok|matplotlib|version)[ \xa0]v?\d+(?:\.\d+)+", re.IGNORECASE),
    re.compile(r"^\s*\d+\.\s", re.MULTILINE),  # numbered list
]  # fmt: skip
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w]*\.?\d)")
PERCENT = re.compile(r"\s?(?:%|percent\b|per cent\b)")


def prose(source: str) -> str:
    """Markdown with everything blanked that is not prose; line breaks stay."""
    for pattern in NOT_PROSE:
        source = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    return source


def value(text: str) -> Decimal | None:
    """A number as written, so that 0.50 equals 0.5 and no rounding takes place."""
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None


def stated_at(source: str) -> list[tuple[int, str]]:
    """(line, number) of what reads like a result in the prose: a decimal point, an exponent, thousands, or a percent sign."""
    text = prose(source)
    places = []
    for match in NUMBER.finditer(text):
        if re.search(r"[.,e]", match[0]) or PERCENT.match(text, match.end()):
            places.append((text.count("\n", 0, match.start()) + 1, match[0]))
    return places


def stated(source: str) -> list[str]:
    """Numbers in the prose that read like results."""
    return [number for _, number in stated_at(source)]


def printed(nb) -> set[Decimal]:
    """Every number that stands in a compared or recorded output."""
    values = set()
    for cell in nb.cells:
        if {"nbval-ignore-output", "first-cell"} & set(tags(cell)):
            continue
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            shown = [output.get("text", ""), *(data.get(mime, "") for mime in ("text/plain", "text/html", "text/markdown"))]
            for text in shown:
                plain = re.sub(r"<[^>]*>", " ", text)
                values |= {value(match[0]) for match in re.finditer(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", plain)}
    return values


def number_problems(nb, path):
    """Typed results, and constants that are declared for nothing."""
    declared = {str(key) for key in nb.metadata.get("rltok", {}).get("constants", {})}
    constants = {value(text) for text in declared | CONSTANTS.keys()}
    glued, used, problems = printed(nb), set(), []
    for index, cell in enumerate(nb.cells):
        if cell.cell_type != "markdown":
            continue
        for number in stated(cell.source):
            used.add(value(number))
            if value(number) not in constants | glued:
                problems.append(
                    f"{where(path, index)} states {number}, which no cell prints. Print it in a compared cell; "
                    "if it is a definition, declare it under rltok: constants in the header."
                )
    for text in sorted(declared):
        if value(text) not in used:
            problems.append(f"{path.name} declares the constant {text} and no prose states it. Delete it from the header.")
    return problems
