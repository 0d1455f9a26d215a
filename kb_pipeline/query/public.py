"""`search_knowledge_base` for whoever imports it: the home of the settings, public knowledge bases only."""

from functools import cache

from kb_pipeline.query.caller import ANONYMOUS
from kb_pipeline.query.search import Query, open_query
from kb_pipeline.query.tool import tool_for


def search_knowledge_base(query: str, kb_id: str = "", top_k: int = 5) -> str:
    """The best passages for a query as a JSON list, best first.

    Searches the home of the settings (`KB_HOME`) as nobody in particular: only public knowledge bases are seen. For a
    user's or an account's, bind a caller once: `tool = open_query(home).tool(Caller(user_id=…, client_id=…))`.

    Raises: UsageError: empty query; NotVisible: no such public knowledge base.
    """
    return tool_for(_query_of_settings(), ANONYMOUS)(query, kb_id, top_k)


@cache
def _query_of_settings() -> Query:
    return open_query()
