"""What a knowledge base may set for itself, instead of the home's settings; checked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kb_pipeline.errors import UsageError
from kb_pipeline.settings import Settings

OWN_SETTINGS = ("embedding_model", "chunk_unit", "chunk_size", "chunk_overlap")


def changed(settings: Settings, own: Mapping[str, Any], values: Sequence[str]) -> dict[str, Any]:
    """A knowledge base's own settings after changes given as `NAME=VALUE`; `NAME=` takes the home's again.

    Raises: UsageError: a name or value that cannot be. SystemicError: a model that is not on this machine.
    """
    wanted = dict(own)
    for value in values:
        name, separator, given = value.partition("=")
        name = name.strip().lower()
        if not separator or name not in OWN_SETTINGS:
            raise UsageError(f"{value!r}: give NAME=VALUE, NAME one of {', '.join(OWN_SETTINGS).upper()}.")
        wanted.pop(name, None)
        if given.strip():
            wanted[name] = given.strip()
    return checked(settings, wanted)


def checked(settings: Settings, own: Mapping[str, Any]) -> dict[str, Any]:
    """A knowledge base's own settings, names in whatever case, values as text or number; as they are stored.

    Raises: as `changed`.
    """
    from pydantic import ValidationError

    from kb_pipeline.services.embedders import open_embedder
    from kb_pipeline.storage.layout import Layout

    wanted = {name.lower(): value for name, value in own.items()}
    if len(wanted) < len(own):
        raise UsageError(f"{Counter(map(str.upper, own)).most_common(1)[0][0]} is given twice.")
    if strange := sorted(wanted.keys() - set(OWN_SETTINGS)):
        raise UsageError(f"{strange[0]!r} is no setting of a knowledge base: {', '.join(OWN_SETTINGS).upper()} are.")
    try:
        together = Settings(**{**settings.model_dump(include=settings.model_fields_set), **wanted})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).upper() if first["loc"] else "A value"
        raise UsageError(f"{name} is wrong: {first['msg'].removeprefix('Value error, ')}.") from None
    if "embedding_model" in wanted:
        open_embedder(together, Layout.of(together).models)
    return {name: getattr(together, name) for name in wanted}
