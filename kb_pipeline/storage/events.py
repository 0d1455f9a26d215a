"""Taking a document out of the record of searches."""

import json
from typing import Any

import sqlalchemy as sa

from kb_pipeline.storage.tables import retrieval_events

_LEAST_WORDS = 3
"""A query of so many words that stands in the document as it is was copied from there."""


class Events:
    """Changes to retrieval_events after the fact."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def forget(self, kb_id: str, document_id: str, texts: list[str]) -> int:
        """Blank the queries that a document answered or that quote it, drop its passages; returns how many events.

        Args:
            texts: what the document said, in any version that is left.
        """
        plain = [_plain(text) for text in texts]
        count = 0
        with self._engine.begin() as connection:
            events = connection.execute(
                sa.select(retrieval_events.c.event_id, retrieval_events.c.query, retrieval_events.c.detail).where(
                    sa.cast(retrieval_events.c.kb_ids, sa.Text).like(f'%"{kb_id}"%')
                )
            )
            for event_id, query, detail in events.all():
                is_quote = len(query.split()) >= _LEAST_WORDS and any(_plain(query) in text for text in plain)
                if is_quote or f'"{document_id}-' in json.dumps(detail):
                    change = retrieval_events.update().where(retrieval_events.c.event_id == event_id)
                    connection.execute(change.values(query="", detail=_without(detail, document_id)))
                    count += 1
        return count


def _without(detail: dict[str, Any], document_id: str) -> dict[str, Any]:
    kept = [one for one in detail.get("injected", []) if not one["chunk_id"].startswith(f"{document_id}-")]
    return {**detail, "injected": kept, "notes": [], "is_redacted": True}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
