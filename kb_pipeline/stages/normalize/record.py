"""Records: JSON documents of the records connector, text given as such."""

import json

from kb_pipeline.errors import Corrupt
from kb_pipeline.records import NormalizedContent, RawItem
from kb_pipeline.stages.normalize.blocks import Blocks


def normalize_record(raw: RawItem, name: str) -> NormalizedContent:
    """The record's title and text, cleaned.

    Raises: Corrupt: `content` is not a JSON object with a `text` that is a string.
    """
    try:
        record = json.loads(raw.content)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{name}: the record is not JSON ({error})") from error
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise Corrupt(f"{name}: the record has no text")
    blocks = Blocks()
    blocks.add(record["text"])
    title = record.get("title") or raw.title
    blocks.title = title if isinstance(title, str) else ""
    return blocks.content()
