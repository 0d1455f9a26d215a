"""Expectations on calls made as somebody: nothing of others shows; what is not theirs looks as if it were not there."""

from kb_pipeline.errors import NotVisible
from kb_pipeline_tests.case_steps.looking import found_in
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord, as_list, expectation
from kb_pipeline_tests.case_steps.world import NO_BASE, NO_DOCUMENT, Call, World, refusal_of


@expectation("each_call", "text_excludes", "and_title_excludes", "title_excludes", "no_crash", "no_error")
def each_call(world: World, args: Args) -> None:
    """Everything every call gave back, refusals included."""
    if not world.calls:
        raise Mismatch("no call was made")
    for call in world.calls:
        said = [*call.texts, *([str(call.error)] if call.error else [])]
        for needle in as_list(args.get("text_excludes")):
            if any(found_in(str(needle), text) for text in said):
                raise Mismatch(f"call {_named(call)}: expected nothing of {needle!r}, and it is in the answer")
        for key in ("and_title_excludes", "title_excludes"):
            for needle in as_list(args.get(key)):
                if any(str(needle) in title for title in call.titles):
                    raise Mismatch(f"call {_named(call)}: expected no title {needle!r}, and it is in the answer")
        if args.get("no_error") and call.error:
            raise Mismatch(f"call {_named(call)}: expected no error, found {call.error}")
        if call.error and not refusal_of(call.error):
            raise Mismatch(f"call {_named(call)}: {type(call.error).__name__}: {call.error}")


@expectation("each_call_on", "target", "one_of", "same_answer_as_for_an_id_that_does_not_exist")
def each_call_on(world: World, args: Args) -> None:
    """Calls that aim at one base, by its name or by a document in it, and at nothing else."""
    calls = [call for call in world.calls if call.bases == (str(args["target"]),)]
    if not calls:
        raise Mismatch(f"no call on {args['target']!r} was made")
    for call in calls:
        options = [str(each).lower() for each in as_list(args.get("one_of"))]
        if options and not any(_is(call, option) for option in options):
            raise Mismatch(f"call {_named(call)}: expected {' or '.join(options)}, found {call.error or 'an answer'}")
        if args.get("same_answer_as_for_an_id_that_does_not_exist") and _answer(call) != _answer(call.twin):
            raise Mismatch(
                f"call {_named(call)}: expected {_answer(call.twin)}, as if it did not exist, found {_answer(call)}"
            )


def _is(call: Call, option: str) -> bool:
    if option == "not found":
        return isinstance(call.error, NotVisible)
    if option in ("forbidden", "refused", "denied"):
        return call.error is not None and refusal_of(call.error)
    if option in ("empty", "empty result", "no results"):
        return call.error is None and not call.texts and not call.titles
    raise UnknownWord(f"unknown outcome of a call: {option!r}")


def _answer(call: Call | None) -> tuple[object, ...]:
    """The answer with the names asked for taken out: they differ by themselves."""
    if call is None:
        return ("no twin was made",)
    said = str(call.error) if call.error else ""
    given = call.args.values() if isinstance(call.args, dict) else [call.args]
    for name in sorted(
        {NO_BASE, NO_DOCUMENT, *(str(each).removeprefix("first of ") for each in given)} - {"", "None"},
        key=len,
        reverse=True,
    ):
        said = said.replace(repr(name), "…")
    return (type(call.error).__name__, said, call.texts, call.titles)


def _named(call: Call) -> str:
    return f"{call.name} {call.args}"
