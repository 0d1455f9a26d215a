"""Which language a text is in. Pure; the model is loaded once, when first asked."""

import re
import unicodedata
from functools import lru_cache
from typing import Any

MIN_LETTERS = 20
_SAMPLE_CHARS = 4_000
_SCRIPTS = (  # scripts that one language alone writes, or nearly so
    ("ja", re.compile("[\u3040-\u30ff\uff66-\uff9f]"), 0.05),
    ("ko", re.compile("[\uac00-\ud7af\u1100-\u11ff]"), 0.3),
    ("zh", re.compile("[\u4e00-\u9fff\u3400-\u4dbf]"), 0.3),
    ("th", re.compile("[\u0e00-\u0e7f]"), 0.3),
    ("el", re.compile("[\u0370-\u03ff]"), 0.3),
    ("he", re.compile("[\u0590-\u05ff]"), 0.3),
    ("ka", re.compile("[\u10a0-\u10ff]"), 0.3),
    ("hy", re.compile("[\u0530-\u058f]"), 0.3),
    ("km", re.compile("[\u1780-\u17ff]"), 0.3),
    ("lo", re.compile("[\u0e80-\u0eff]"), 0.3),
    ("my", re.compile("[\u1000-\u109f]"), 0.3),
    ("ta", re.compile("[\u0b80-\u0bff]"), 0.3),
    ("te", re.compile("[\u0c00-\u0c7f]"), 0.3),
    ("ml", re.compile("[\u0d00-\u0d7f]"), 0.3),
    ("gu", re.compile("[\u0a80-\u0aff]"), 0.3),
)


def detect_language(text: str) -> str:
    """ISO 639-1 code of the text's main language, "" where there are too few letters to tell."""
    sample = _sample(text)
    letters = [c for c in sample if unicodedata.category(c)[0] in "LM"]
    if not letters:
        return ""
    joined = "".join(letters)
    for language, script, share in _SCRIPTS:
        if len(script.findall(joined)) > share * len(letters) and len(letters) >= 4:
            return language
    if len(letters) < MIN_LETTERS:
        return ""
    return str(_identifier().classify(sample.lower() if sample.isupper() else sample)[0])


def _sample(text: str) -> str:
    """Start, middle and end of the text, without addresses and code-like words, which speak no language."""
    if len(text) > _SAMPLE_CHARS:
        third, middle = _SAMPLE_CHARS // 3, len(text) // 2
        text = "\n".join((text[:third], text[middle : middle + third], text[-third:]))
    return re.sub(r"\S*(?:://|www\.|@|[_/\\])\S*", " ", text)


@lru_cache(maxsize=1)
def _identifier() -> Any:
    import py3langid  # loads a model

    return py3langid
