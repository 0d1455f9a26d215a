"""Open a home and search it: scope, channels, fusion, citations, event. Each step is a file beside this one."""

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kb_pipeline import ids
from kb_pipeline.errors import UsageError
from kb_pipeline.query.caller import ANONYMOUS, Caller
from kb_pipeline.query.channels import CHANNELS, Channel, Channels, Found
from kb_pipeline.query.citations import hit_of, sources_of
from kb_pipeline.query.events import EventLog, event_of, record
from kb_pipeline.query.fusion import K, Ranked, fuse, merge_equal
from kb_pipeline.query.once import Once
from kb_pipeline.query.result import SearchResult
from kb_pipeline.query.scope import Scope, VisibleBase, scope_of
from kb_pipeline.query.tool import SearchTool, tool_for
from kb_pipeline.query.trust import language_note, split_by_trust, unspoken, unspoken_languages
from kb_pipeline.stages.language import detect_language
from kb_pipeline.stages.terms import query_terms
from kb_pipeline.storage.lance_engine import engine
from kb_pipeline.storage.lance_read import Candidate, load_passages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb_pipeline.services.embedder import Embedder
    from kb_pipeline.settings import Settings

CANDIDATES = 50
"""Passages each channel brings, at least."""
MAX_TOP_K = 1_000
_CACHED_VECTORS = 1_024
_OPEN_MODELS = 16


class QueryCatalog(EventLog, Protocol):
    """What a search asks the catalog."""

    def searchable(
        self, user_id: str | None, client_id: str | None, is_operator: bool = ...
    ) -> Sequence[VisibleBase]: ...
    def not_live(self, document_ids: Sequence[str]) -> set[str]: ...


class Query:
    """A home opened for searching. Safe to share between threads; nothing heavy is loaded before it is needed.

    `catalog` opens the catalog, `embedder` the embedder of a model's name: in the background, each once.
    """

    def __init__(
        self, settings: "Settings", catalog: Callable[[], QueryCatalog], embedder: Callable[[str], "Embedder"]
    ) -> None:
        self.settings = settings
        self._pool = ThreadPoolExecutor(8, "kb-query")
        self._is_warm = self._is_closed = False
        self._process = os.getpid()
        self._writer = ThreadPoolExecutor(1, "kb-events")
        self._catalog = self._pool.submit(catalog)
        self._embedder = Once(embedder, _OPEN_MODELS)
        self._channels = Channels(settings.storage_root, self._pool)
        self._vector: Once[tuple[str, str], NDArray[np.float32]] = Once(self._embed, _CACHED_VECTORS)

    def search(
        self,
        query: str,
        *,
        caller: Caller = ANONYMOUS,
        kb_id: str | Sequence[str] | None = None,
        top_k: int = 5,
        modes: Sequence[Channel] | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """The best passages for a query among what the caller may see.

        `kb_id` is an id or a name, several of them, or None for everything visible; `modes` the channels to use, by
        default as the settings say. Without a caller only public knowledge bases are searched. Any string but an empty
        one is a query.

        Raises:
            UsageError: empty query, `top_k` out of range, unknown mode.
            NotVisible: a knowledge base is unknown or not the caller's.
            SystemicError: no channel could answer.

        """
        result, row = self._answer(query, caller, kb_id, top_k, modes, explain)
        record(self._writer, self._catalog.result(), row)
        return result

    def rank(self, query: str, *, caller: Caller, kb_id: str, top_k: int, modes: Sequence[Channel]) -> SearchResult:
        """As `search`, without leaving an event: for measuring."""
        return self._answer(query, caller, kb_id, top_k, modes, False)[0]

    def tool(self, caller: Caller) -> SearchTool:
        """The agent tool `search_knowledge_base(query, kb_id="", top_k=5) -> str` for this caller."""
        return tool_for(self, caller)

    def close(self) -> None:
        """Wait for events still being written, and end the threads."""
        self._is_closed = True
        self._writer.shutdown()
        self._pool.shutdown()

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(
        self,
        query: str,
        caller: Caller,
        kb_id: str | Sequence[str] | None,
        top_k: int,
        modes: Sequence[Channel] | None,
        explain: bool,
    ) -> tuple[SearchResult, dict[str, Any]]:
        start = time.perf_counter()
        channels = self._checked(query, top_k, modes)
        text = _clean(query)
        self._warm_up(text, channels)
        catalog = self._catalog.result()
        scope = scope_of(catalog.searchable(caller.user_id, caller.client_id, caller.is_operator), kb_id)
        language = detect_language(text)
        terms = query_terms(text, language)
        found = self._find(scope, channels, text, terms, max(CANDIDATES, 2 * top_k))
        ranked = self._ranked(text, language, found)
        gone = catalog.not_live(sorted({each.candidate.document_id for each in ranked}))
        ranked = merge_equal([each for each in ranked if each.candidate.document_id not in gone])[:top_k]
        passages = load_passages(shown for each in ranked for shown in (each.candidate, *each.also_in))
        hits = tuple(hit_of(rank, each, passages, terms) for rank, each in enumerate(ranked, start=1))
        found.timings["total"] = (time.perf_counter() - start) * 1e3
        result = SearchResult(
            query=text or query,
            event_id=f"e{uuid.uuid4().hex}",
            hits=hits,
            sources=sources_of(hits, scope.names),
            timings={name: round(ms, 3) for name, ms in found.timings.items()},
            notes=(
                *self._notes(query, text, scope, channels, found),
                *self._language_notes(text, language, found, ranked),
            ),
            explanation=_explanation(language, terms, found, ranked) if explain else None,
        )
        return result, event_of(result, caller, scope.kb_ids, top_k, self._settings_hash(channels), found)

    def _checked(self, query: str, top_k: int, modes: Sequence[Channel] | None) -> tuple[Channel, ...]:
        if os.getpid() != self._process:
            raise UsageError("This Query was opened before a fork; open one in each process.")
        if self._is_closed:
            raise UsageError("This Query is closed; open another.")
        if not isinstance(query, str) or not query:
            raise UsageError(f"The query {query!r} is empty: say in text what to look for.")
        if not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
            raise UsageError(f"top_k is {top_k!r}; it must be a number from 1 to {MAX_TOP_K}.")
        if modes is None:
            return CHANNELS if self.settings.hybrid_search_enabled else ("dense",)
        if not modes or set(modes) - set(CHANNELS):
            raise UsageError(f"Search modes are {', '.join(CHANNELS)}; got {', '.join(map(repr, modes)) or 'none'}.")
        return tuple(name for name in CHANNELS if name in modes)

    def _warm_up(self, text: str, channels: Sequence[Channel]) -> None:
        """Let the first search load engine, language model and the usual embedder side by side with the catalog."""
        if self._is_warm or not text:
            return
        self._is_warm = True
        self._pool.submit(engine)
        self._pool.submit(detect_language, text)
        if "dense" in channels:
            self._pool.submit(self._vector, (self.settings.embedding_model, text))

    def _find(self, scope: Scope, channels: Sequence[Channel], text: str, terms: str, limit: int) -> Found:
        if not text or not scope.tables:
            return Found(channels={name: [] for name in channels})
        return self._channels.search(
            scope, channels, terms, self._embedder, vector_of=lambda model: self._vector((model, text)), limit=limit
        )

    def _ranked(self, text: str, language: str, found: Found) -> list[Ranked]:
        rankings: list[tuple[str, Sequence[Candidate]]] = []
        behind: list[Candidate] = []
        unjudged: set[str] = set()
        sparse = found.channels.get("sparse", [])
        for by_model in found.dense:
            trusted, distrusted = by_model.candidates, list[Candidate]()
            if "sparse" in found.channels:
                trusted, distrusted = split_by_trust(text, language, trusted, sparse, by_model.languages)
                mine = [each for each in sparse if each.kb_id in by_model.kb_ids]
                unjudged |= unspoken(mine, by_model.languages)
            rankings.append(("dense", trusted))
            behind += distrusted
        if "sparse" in found.channels:
            rankings.append(("sparse", sparse))
        return fuse(rankings, behind, unjudged)

    def _notes(self, query: str, text: str, scope: Scope, channels: Sequence[Channel], found: Found) -> Sequence[str]:
        notes = [f"The {name} channel was skipped: {error}" for name, error in found.failed.items()]
        if not scope.names:
            notes.append("No knowledge base is visible to this caller.")
        if scope.unindexed:
            notes.append(f"Nothing is indexed yet in {', '.join(scope.unindexed)}; `kb sync` does it.")
        if not text:
            notes.append(f"The query {query!r} holds nothing that can be searched.")
        how = "only by their words" if "sparse" in channels else "not at all"
        for model, (kb_ids, reason) in sorted(found.unread.items()):
            names = ", ".join(sorted(scope.names[kb_id] for kb_id in kb_ids))
            notes.append(
                f"Passages of {names} are embedded by {model}, which cannot be used here ({reason}): they were "
                f"searched {how}. `kb sync` re-embeds them with the model that is set."
            )
        return notes

    def _language_notes(self, text: str, language: str, found: Found, ranked: Sequence[Ranked]) -> list[str]:
        """A sentence for each model that does not speak what was asked or found."""
        notes = []
        for by_model in found.dense if any(found.channels.values()) else ():
            sparse = [each for each in found.channels.get("sparse", ()) if each.kb_id in by_model.kb_ids]
            shown = [each.candidate for each in ranked if each.candidate.kb_id in by_model.kb_ids]
            if languages := unspoken_languages(text, language, sparse, shown, by_model.languages):
                notes.append(language_note(by_model.model, languages, "sparse" in found.channels))
        return notes

    def _settings_hash(self, channels: Sequence[Channel]) -> str:
        model = self.settings.embedding_model
        return ids.json_hash({"channels": list(channels), "model": model, "k": K, "candidates": CANDIDATES})

    def _embed(self, asked: tuple[str, str]) -> "NDArray[np.float32]":
        model, text = asked
        return self._embedder(model).embed_query(text)


def open_query(home: "str | Path | None" = None) -> Query:
    """Open a home for searching: `home`, else `KB_HOME`. Returns at once; catalog and model load in the background."""
    from kb_pipeline.settings import Settings

    settings = Settings() if home is None else Settings(kb_home=Path(home))

    def catalog() -> QueryCatalog:
        from kb_pipeline.storage.catalog_read import open_reads

        return open_reads(settings)

    def embedder(model: str) -> "Embedder":
        from kb_pipeline.services.embedders import open_embedder

        return open_embedder(settings, settings.kb_home / "models", model)

    return Query(settings, catalog, embedder)


def _clean(query: str) -> str:
    """The query without what no text holds: NUL and lone surrogates."""
    return query.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8").strip("\u200b\u2060\ufeff \t\r\n")


def _explanation(language: str, terms: str, found: Found, ranked: Sequence[Ranked]) -> Mapping[str, Any]:
    return {
        "query_language": language,
        "terms": terms.split(),
        "channels": {
            name: [{"chunk_id": p.chunk_id, "rank": rank, "score": p.score} for rank, p in enumerate(passages, start=1)]
            for name, passages in found.channels.items()
        },
        "fused": [{"chunk_id": each.candidate.chunk_id, "rrf": each.score, "ranks": each.ranks} for each in ranked],
        "versions": found.versions,
    }
