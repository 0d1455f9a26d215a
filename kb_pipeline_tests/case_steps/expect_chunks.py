"""Expectations on chunks: sizes, borders, and that nothing is lost."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import regex

from kb_pipeline_tests.case_steps.expect_text import is_mark, stored_document
from kb_pipeline_tests.case_steps.looking import WHEN, documents_meant, shown
from kb_pipeline_tests.case_steps.reading import DocumentView, plain
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, as_list, expect_number, expectation
from kb_pipeline_tests.case_steps.world import World

_PLAIN_FILES = (".txt", ".md", ".markdown", ".text", ".log")
_UNSEEN = re.compile(r"[\s\u200b\u200c\u200d\u2060\ufeff\u00ad\x00-\x1f\x7f]")
_MARKUP = re.compile(r"[\\#*_`~>|\[\]()!+=-]")

Chunks = Sequence[Mapping[str, Any]]


@expectation(
    "chunks", "document", "kb", "max_chars", "or_max_tokens", "max_tokens", "min_chars", "min_count", "max_count",
    "count", "no_text_lost", "each_is_substring_of_input", "each_nonempty", "each_valid_utf8", "no_lone_surrogates",
    "no_replacement_char", "no_grapheme_split", "never_starts_with_combining_mark", "ends_at_one_of", "share",
    "min_nonspace_chars", "max_overlap_chars", "contains", *WHEN,
)  # fmt: skip
def chunks(world: World, args: Args) -> None:
    """Each document meant, one by one; `*` looks at the chunks of all."""
    views = documents_meant(world, args)
    name = str(args.get("document", "*"))
    groups = [view.chunks for view in views] if name != "*" else [[chunk for view in views for chunk in view.chunks]]
    for group in groups:
        _check_counts(args, group, name)
        _check_sizes(world, args, group, name)
    for view in views:
        for key, check in _EACH.items():
            if args.get(key):
                check(world, args, view)


def _check_counts(args: Args, found: Chunks, name: str) -> None:
    if len(found) < args.get("min_count", 0):
        raise Mismatch(f"chunks of {name}: expected at least {args['min_count']}, found {len(found)}")
    if "max_count" in args and len(found) > args["max_count"]:
        raise Mismatch(f"chunks of {name}: expected at most {args['max_count']}, found {len(found)}")
    if "count" in args:
        expect_number(len(found), args["count"], f"chunks of {name}")
    for needle in as_list(args.get("contains")):
        if not any(plain(str(needle)) in plain(chunk["text"]) for chunk in found):
            raise Mismatch(f"chunks of {name}: expected one with {needle!r}")


def _check_sizes(world: World, args: Args, found: Chunks, name: str) -> None:
    most_chars = args.get("max_chars")
    longest = max((len(chunk["text"]) for chunk in found), default=0)
    most_tokens = args.get("or_max_tokens", args.get("max_tokens"))
    is_over = most_chars is not None and longest > most_chars
    if (is_over and most_tokens is not None) or (most_chars is None and most_tokens is not None):
        counts = world.embedder.count_tokens([chunk["text"] for chunk in found])
        is_over = max(counts, default=0) > most_tokens
    if is_over:
        raise Mismatch(
            f"chunks of {name}: expected at most {most_chars} characters or {most_tokens} tokens, found {longest}"
        )
    shortest = min((len(chunk["text"]) for chunk in found), default=0)
    if "min_chars" in args and found and shortest < args["min_chars"]:
        raise Mismatch(f"chunks of {name}: expected at least {args['min_chars']} characters each, found {shortest}")
    least = args.get("min_nonspace_chars", 1 if args.get("each_nonempty") else 0)
    for chunk in found:
        if len("".join(chunk["text"].split())) < least:
            raise Mismatch(
                f"chunks of {name}: expected at least {least} visible characters each, found {chunk['text']!r}"
            )


def _given_text(world: World, view: DocumentView) -> tuple[str, bool]:
    """(the text the document should hold, whether it is the file itself and not what the product made of it)."""
    name = str(view.row.get("external_id", ""))
    path = world.case.folder / name
    uploaded = world.root / "files" / str(view.row.get("kb_id", "")) / "uploads" / name
    for candidate in (uploaded, path):
        if Path(name).suffix.lower() in _PLAIN_FILES and candidate.is_file():
            return candidate.read_bytes().decode("utf-8-sig", "replace"), True
    if "kb_id" not in view.row:  # the splitter alone: the file as it is
        return path.read_bytes().decode("utf-8-sig", "replace"), True
    return str(stored_document(world, view).get("text", "")), False


def _no_text_lost(world: World, args: Args, view: DocumentView) -> None:
    given, is_file = _given_text(world, view)
    wanted, found = _UNSEEN.sub("", given), _UNSEEN.sub("", view.text)
    if wanted == found:
        return
    if (is_file and view.name.endswith((".md", ".markdown"))) or str(view.row.get("external_id")).endswith(".md"):
        wanted, found = _MARKUP.sub("", wanted), _MARKUP.sub("", found)
    if wanted != found:
        at = next(
            (i for i, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), min(len(wanted), len(found))
        )
        raise Mismatch(
            f"chunks of {view.name}: expected the whole text ({len(wanted)} visible characters), found {len(found)}; "
            f"they part at {at}: {wanted[at : at + 20]!r} / {found[at : at + 20]!r}"
        )


def _substring(world: World, args: Args, view: DocumentView) -> None:
    given = plain(_given_text(world, view)[0])
    for chunk in view.chunks:
        if plain(chunk["text"]) not in given:
            raise Mismatch(f"chunks of {view.name}: expected parts of the input, found {shown(chunk['text'])!r}")


def _valid(world: World, args: Args, view: DocumentView) -> None:
    for chunk in view.chunks:
        try:
            chunk["text"].encode("utf-8")
        except UnicodeEncodeError as error:
            raise Mismatch(f"chunks of {view.name}: a chunk is no valid UTF-8: {error}") from error


def _no_replacement(world: World, args: Args, view: DocumentView) -> None:
    given, _ = _given_text(world, view)
    if view.text.count("\ufffd") > given.count("\ufffd"):
        raise Mismatch(f"chunks of {view.name}: expected no replacement character, found {shown(view.text)!r}")


def _no_split_grapheme(world: World, args: Args, view: DocumentView) -> None:
    borders = {0, *(match.end() for match in regex.finditer(r"\X", view.text))}
    first = view.chunks[0]["start_char"] if view.chunks else 0
    for chunk in view.chunks:
        if not {chunk["start_char"] - first, chunk["end_char"] - first} <= borders:
            raise Mismatch(f"chunks of {view.name}: chunk {chunk['chunk_idx']} begins or ends inside a character")


def _no_leading_mark(world: World, args: Args, view: DocumentView) -> None:
    for chunk in view.chunks:
        if chunk["text"] and is_mark(chunk["text"][0]):
            raise Mismatch(f"chunks of {view.name}: chunk {chunk['chunk_idx']} starts with a combining mark")


def _ends(world: World, args: Args, view: DocumentView) -> None:
    inner = view.chunks[:-1]
    wanted = "".join(str(each) for each in as_list(args["ends_at_one_of"]))
    good = sum(chunk["text"].rstrip()[-1:] in wanted for chunk in inner)
    share = float(args.get("share", 1.0))
    if good < share * len(inner):
        raise Mismatch(
            f"chunks of {view.name}: expected an end of {wanted} for {share} of them, found {good} of {len(inner)}"
        )


def _overlap(world: World, args: Args, view: DocumentView) -> None:
    for before, chunk in zip(view.chunks, view.chunks[1:], strict=False):
        if before["end_char"] - chunk["start_char"] > args["max_overlap_chars"]:
            raise Mismatch(
                f"chunks of {view.name}: chunk {chunk['chunk_idx']} repeats over {args['max_overlap_chars']} characters"
            )


_EACH: dict[str, Callable[[World, Args, DocumentView], None]] = {
    "no_text_lost": _no_text_lost, "each_is_substring_of_input": _substring, "each_valid_utf8": _valid,
    "no_lone_surrogates": _valid, "no_replacement_char": _no_replacement, "no_grapheme_split": _no_split_grapheme,
    "ends_at_one_of": _ends, "never_starts_with_combining_mark": _no_leading_mark, "max_overlap_chars": _overlap,
}  # fmt: skip
