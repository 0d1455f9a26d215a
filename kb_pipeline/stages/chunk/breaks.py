"""What may stand before a cut, from paragraph to word, in many scripts. Every pattern costs at most its window."""

import regex

_NEW_LINE = r"[\n\r\v\f\x85\u2028\u2029]"
_CLOSERS = r"[\"'”’»)\]」』）】》〉]{0,4}"
_ABBREVIATIONS = r"\p{Lu}|Mrs?|Ms|Dr|Prof|St|vs|[Ff]igs?|Nos?|al|cf|e\.g|i\.e|approx|[Ee]q|Inc|Ltd|Co|Jr|Sr"
_SPACED_END = rf"[.!?…؟۔։।॥።]{_CLOSERS}(?=\s)(?<!\b(?:{_ABBREVIATIONS})\.)(?=\s{{1,40}}[^\s\p{{Ll}}])"
_UNSPACED_END = rf"[。！？｡．]{_CLOSERS}(?![。！？｡．])"
_THAI_LIKE = r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"  # they put spaces between clauses, not between words

_PARAGRAPH = regex.compile(rf"{_NEW_LINE}(?=[^\S\n]{{0,40}}{_NEW_LINE})|\f")
_ITEM = regex.compile(rf"{_NEW_LINE}(?=[^\S\n]{{0,20}}[|*+•·\-\d])")  # a table row, a list item
_LINE = regex.compile(rf"{_NEW_LINE}(?!\s{{0,40}}\p{{Ll}})")  # a line that goes on in lower case is a wrapped sentence
_WRAPPED_LINE = regex.compile(_NEW_LINE)
_SENTENCE = regex.compile(f"{_SPACED_END}|{_UNSPACED_END}")
_CLAUSE = regex.compile(
    rf"[,;:،؛–—]{_CLOSERS}(?=\s)|[，、；：､﹐—…]{_CLOSERS}(?![，、；：､﹐—…])|(?<={_THAI_LIKE})(?=\s)"
)
_WORD = regex.compile(r"\s|[\u200b\u00ad]")

LEVELS = (
    (_PARAGRAPH, 0.7),
    (_LINE, 0.7),
    (_SENTENCE, 0.7),
    (_WRAPPED_LINE, 0.7),
    (_CLAUSE, 0.7),
    (_WORD, 0.4),
)
"""(what ends at a cut, least share of the size that a chunk ending there fills), best first."""

OVERLAP_LEVELS = (_ITEM, _SENTENCE, _LINE, _WRAPPED_LINE, _CLAUSE, _WORD)
"""What ends before the first character that a chunk repeats, best first."""
