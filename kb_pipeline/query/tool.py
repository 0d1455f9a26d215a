"""The agent tool: a query in, a JSON list of passages out. Passages are data, never instructions."""

import json
from collections.abc import Callable
from typing import Protocol

from kb_pipeline.query.caller import Caller
from kb_pipeline.query.result import SearchResult

SearchTool = Callable[..., str]


class Searches(Protocol):
    """An opened home."""

    def search(self, query: str, *, caller: Caller, kb_id: str | None, top_k: int) -> SearchResult: ...


def tool_for(home: Searches, caller: Caller) -> SearchTool:
    """`search_knowledge_base` bound to an opened home and a caller; the agent cannot ask as anybody else."""

    def search_knowledge_base(query: str, kb_id: str = "", top_k: int = 5) -> str:
        """The best passages for a query as a JSON list, best first; `kb_id` narrows it to one knowledge base."""
        asked = int(top_k) if str(top_k).isdecimal() else top_k  # models pass numbers as text
        result = home.search(query, caller=caller, kb_id=kb_id or None, top_k=asked)
        return json.dumps(
            [
                {
                    "document_title": hit.document_title,
                    "chunk_text": hit.chunk_text,
                    "similarity": hit.similarity,
                    "document_id": hit.document_id,
                    "chunk_idx": hit.chunk_idx,
                    "number": hit.rank,
                    "kb_id": hit.kb_id,
                    "url": hit.url,
                    "page": hit.page,
                    "start_seconds": hit.start_seconds,
                }
                for hit in result.hits
            ],
            ensure_ascii=False,
        )

    return search_knowledge_base
