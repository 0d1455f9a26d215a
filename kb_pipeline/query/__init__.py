"""The read side: `open_query(home).search(…)` and the agent tool. Imports nothing heavy and never Dagster."""

from kb_pipeline.query.caller import ANONYMOUS, OPERATOR, Caller
from kb_pipeline.query.public import search_knowledge_base
from kb_pipeline.query.result import Hit, SearchResult, Source
from kb_pipeline.query.search import Query, open_query
from kb_pipeline.query.tool import tool_for

__all__ = [
    "ANONYMOUS",
    "OPERATOR",
    "Caller",
    "Hit",
    "Query",
    "SearchResult",
    "Source",
    "open_query",
    "search_knowledge_base",
    "tool_for",
]
