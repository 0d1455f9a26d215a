"""Globs on the paths in a folder. One that could match no path at all is refused: it would hide every document."""

import fnmatch
import re

_PIECES = re.compile(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])")
_SPECIAL = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_REGEX = re.compile(r"\(\?(?:$|[:=!<#P]|[aiLmsux]+[:)])|\\|^\^|\$$")
_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")


class Globs:
    """Which paths in a folder are wanted.

    Raises: ValueError: a glob is malformed; the message names it.
    """

    def __init__(self, include: object, exclude: object) -> None:
        self._include, self._exclude = _patterns(include), _patterns(exclude)

    def wants(self, relative: str) -> bool:
        """Whether a path is included and not excluded."""
        is_in = not self._include or any(pattern.fullmatch(relative) for pattern in self._include)
        return is_in and not any(pattern.fullmatch(relative) for pattern in self._exclude)


def fault_of(glob: str) -> str:
    """What is wrong with a glob, as the end of a sentence; "" if nothing is."""
    plain = glob.strip()
    sets = [piece[1:-1].lstrip("!^") for piece in _PIECES.findall(plain) if piece.startswith("[")]
    faults = (
        (not plain, "is empty"),
        (plain.startswith("/") or ".." in plain.split("/"), "is not a path in the folder"),
        (bool(_REGEX.search(plain)), "is a regular expression; a glob has *, **, ? and [abc]"),
        (bool(_BRACES.search(plain)), "has braces, which mean nothing here; give each as a glob of its own"),
        (any("[" in piece for piece in _PIECES.split(plain)[::2]), "has a [ that is not closed"),
        (not all(sets), "has an empty []"),
        (any(a > b for piece in sets for a, b in re.findall("(.)-(.)", piece)), "has a range that runs backwards"),
    )
    return next((fault for is_so, fault in faults if is_so), "")


def _patterns(value: object) -> list[re.Pattern[str]]:
    globs = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    return [_pattern(str(glob)) for glob in globs]


def _pattern(glob: str) -> re.Pattern[str]:
    """`*` within a folder, `**` across folders; without a slash it is tried on the name alone; `dir/` is all below."""
    if fault := fault_of(glob):
        raise ValueError(f"The glob {glob!r} {fault}")
    glob = glob.strip().removeprefix("./")
    if glob.endswith("/"):
        glob += "**"
    if "/" not in glob:
        glob = f"**/{glob}"
    return re.compile(
        "".join(
            _SPECIAL.get(piece) or (fnmatch.translate(piece)[4:-3] if piece[:1] == "[" else re.escape(piece))
            for piece in _PIECES.split(glob)
        )
    )
