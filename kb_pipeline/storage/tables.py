"""The catalog's tables and columns. A change here needs a migration beside it, in storage/migrations/versions."""

import re
from datetime import UTC, datetime

import sqlalchemy as sa


class UtcTime(sa.types.TypeDecorator[datetime]):
    """UTC-aware in and out, also on SQLite, which forgets zones."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    @property
    def python_type(self) -> type[datetime]:
        """What comes out."""
        return datetime

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return value.astimezone(UTC) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class PlainText(sa.types.TypeDecorator[str]):
    """A text in which U+FFFD stands for NUL and lone surrogates: Postgres takes no NUL, UTF-8 no surrogate."""

    impl: type[sa.String] = sa.Text
    cache_ok = True

    @property
    def python_type(self) -> type[str]:
        """What comes out."""
        return str

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return value if value is None else _UNSTORABLE.sub("\ufffd", value)


class ShortText(PlainText):
    """A text of a length that Postgres enforces: for what is made here, never for what others write."""

    impl = sa.String
    cache_ok = True


metadata = sa.MetaData()
_TIME = UtcTime()

knowledge_bases = sa.Table(
    "knowledge_bases",
    metadata,
    sa.Column("kb_id", ShortText(40), primary_key=True, doc="id, made from the name"),
    sa.Column("name", PlainText, nullable=False, doc="name as people know it"),
    sa.Column("description", PlainText, nullable=False, default="", doc="what it is for"),
    sa.Column("scope", ShortText(8), nullable=False, doc="user, account or public"),
    sa.Column(
        "tenant",
        ShortText(80),
        nullable=False,
        index=True,
        doc="whose search database holds it; follows from scope, owner and client",
    ),
    sa.Column("owner", PlainText, nullable=False, default="", doc="user it belongs to; scope user"),
    sa.Column("client_id", PlainText, nullable=False, default="", doc="account it belongs to; scope account"),
    sa.Column("agency_id", PlainText, nullable=False, default="", doc="agency of the account, for the record"),
    sa.Column("budget_usd", sa.Float, doc="what paid models may cost in a calendar month, UTC; empty for no limit"),
    sa.Column("settings", sa.JSON, nullable=False, default=dict, doc="JSON: settings of its own, by `kb set`"),
    sa.Column("created_at", _TIME, nullable=False, doc="when it was made"),
    info={"about": "Knowledge bases, and who may see them."},
)

kb_spaces = sa.Table(
    "kb_spaces",
    metadata,
    sa.Column("kb_id", sa.ForeignKey("knowledge_bases.kb_id"), primary_key=True, doc="knowledge base"),
    sa.Column("space_id", ShortText(100), primary_key=True, doc="model, dims, hash of both with recipe, and splitting"),
    sa.Column("split_id", ShortText(40), nullable=False, doc="how its texts are split; the `chunks` it is made from"),
    sa.Column("embedding_model", PlainText, nullable=False, doc="EMBEDDING_MODEL it is made with"),
    sa.Column("chunk_unit", ShortText(8), nullable=False, doc="CHUNK_UNIT"),
    sa.Column("chunk_size", sa.Integer, nullable=False, doc="CHUNK_SIZE"),
    sa.Column("chunk_overlap", sa.Integer, nullable=False, doc="CHUNK_OVERLAP"),
    sa.Column(
        "role", ShortText(12), nullable=False, doc="serving, candidate, previous, or dropped: about to be removed"
    ),
    sa.Column("since", _TIME, nullable=False, doc="when it got that role"),
    info={"about": "Spaces of each knowledge base: the one that search reads, and those beside it."},
)

kb_sources = sa.Table(
    "kb_sources",
    metadata,
    sa.Column("source_id", ShortText(40), primary_key=True, doc="id, made from name or input"),
    sa.Column("kb_id", sa.ForeignKey("knowledge_bases.kb_id"), nullable=False, index=True, doc="knowledge base"),
    sa.Column("name", PlainText, nullable=False, doc="name; the input where none was given"),
    sa.Column("connector", ShortText(32), nullable=False, doc="rss, url, document or records"),
    sa.Column("input", PlainText, nullable=False, doc="address, file or folder"),
    sa.Column("options", sa.JSON, nullable=False, default=dict, doc="JSON: globs to include and exclude"),
    sa.Column(
        "namespace",
        ShortText(16),
        nullable=False,
        default="",
        doc="keeps equal external ids of two sources of a connector apart; empty where they mean the same document",
    ),
    sa.Column("every_s", sa.Integer, doc="seconds between syncs"),
    sa.Column("cron", PlainText, doc="cron expression, instead of every_s"),
    sa.Column(
        "state", sa.JSON, nullable=False, default=dict, doc="JSON the connector keeps between listings, such as ETags"
    ),
    sa.Column("syncs", sa.Integer, nullable=False, default=0, doc="syncs the sensor has asked for"),
    sa.Column("due_at", _TIME, index=True, doc="when it is due next"),
    sa.Column("listed_at", _TIME, doc="when it was last listed with success"),
    sa.Column(
        "status", ShortText(16), nullable=False, default="pending", doc="pending, ready or failed: the last listing"
    ),
    sa.Column("error_kind", ShortText(16), doc="kind of its failure"),
    sa.Column("error", PlainText, doc="why the last listing failed"),
    sa.Column("created_at", _TIME, nullable=False, doc="when it was added"),
    sa.Column("removed_at", _TIME, doc="when it was removed; the row stays, so that its id is never used again"),
    info={"about": "Where knowledge bases get their documents, when, and how the last listing went."},
)

kb_documents = sa.Table(
    "kb_documents",
    metadata,
    sa.Column("document_id", ShortText(25), primary_key=True, doc="stable id of the document"),
    sa.Column("kb_id", ShortText(40), nullable=False, doc="knowledge base"),
    sa.Column("source_id", ShortText(40), nullable=False, doc="source the document came from"),
    sa.Column("external_id", PlainText, nullable=False, doc="the connector's own stable key"),
    sa.Column("title", PlainText, nullable=False, default="", doc="title"),
    sa.Column("url", PlainText, doc="where a reader finds it"),
    sa.Column("author", PlainText, doc="author"),
    sa.Column("published_at", _TIME, doc="publication time"),
    sa.Column("is_partial", sa.Boolean, nullable=False, default=False, doc="only a preview, an excerpt or some pages"),
    sa.Column("warnings", sa.JSON, nullable=False, default=list, doc="JSON list: what could not be read"),
    sa.Column(
        "status", ShortText(12), nullable=False, doc="pending to ready, failed or archived; docs/own.md has them"
    ),
    sa.Column("error_kind", ShortText(16), doc="kind of the failure"),
    sa.Column("error", PlainText, doc="why it failed"),
    sa.Column("missing_since", _TIME, doc="first listing that did not name it any more; it stays until another agrees"),
    sa.Column("chunks", sa.Integer, nullable=False, default=0, doc="passages in the index"),
    sa.Column("content_hash", ShortText(64), doc="hash of what retrieval can see"),
    sa.Column("cost_usd", sa.Float, nullable=False, default=0.0, doc="what embedding it cost; 0 for local models"),
    sa.Column("run_id", ShortText(64), doc="Dagster run that touched it last"),
    sa.Column("created_at", _TIME, nullable=False, doc="when it was first listed"),
    sa.Column("updated_at", _TIME, nullable=False, doc="when this row last changed"),
    sa.Index("ix_documents_source", "kb_id", "source_id", "status"),
    info={"about": "Every document ever listed, with what became of it."},
)

ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("stage", ShortText(24), primary_key=True, doc="raw_items, documents, chunks or chunk_index"),
    sa.Column("unit", ShortText(25), primary_key=True, doc="document_id"),
    sa.Column(
        "space",
        ShortText(100),
        primary_key=True,
        default="",
        doc="splitting (chunks) or space (chunk_index) the output belongs to; empty for the stages before",
    ),
    sa.Column("kb_id", ShortText(40), nullable=False, doc="knowledge base"),
    sa.Column("source_id", ShortText(40), nullable=False, doc="source the document came from"),
    sa.Column("status", ShortText(8), nullable=False, doc="done or failed"),
    sa.Column("input_hash", PlainText, nullable=False, doc="what it was made from"),
    sa.Column("recipe", ShortText(64), nullable=False, doc="hash of code version and settings that made it"),
    sa.Column("output_hash", ShortText(64), nullable=False, default="", doc="hash of what came out"),
    sa.Column("rows", sa.Integer, nullable=False, default=0, doc="rows written"),
    sa.Column("attempts", sa.Integer, nullable=False, default=0, doc="failures in a row; 1 once it is done"),
    sa.Column("next_try_at", _TIME, doc="when a failed unit is due again; empty where only a person brings it back"),
    sa.Column("error_kind", ShortText(16), doc="kind of the failure"),
    sa.Column("error", PlainText, doc="why it failed"),
    sa.Column("tokens", sa.Integer, nullable=False, default=0, doc="tokens sent to a paid model; 0 for local ones"),
    sa.Column("cost_usd", sa.Float, nullable=False, default=0.0, doc="what that cost; 0 for local models"),
    sa.Column("run_id", ShortText(64), doc="Dagster run that did it"),
    sa.Column("updated_at", _TIME, nullable=False, doc="when"),
    sa.Index("ix_ledger_partition", "kb_id", "source_id", "stage"),
    info={
        "about": "What each stage did for each document, and from what: this is why unchanged documents cost nothing."
    },
)

retrieval_events = sa.Table(
    "retrieval_events",
    metadata,
    sa.Column("event_id", ShortText(40), primary_key=True, doc="id, also in the answer"),
    sa.Column("at", _TIME, nullable=False, index=True, doc="when"),
    sa.Column("query", PlainText, nullable=False, doc="what was asked"),
    sa.Column("caller_hash", ShortText(64), nullable=False, doc="hash of the caller's ids"),
    sa.Column("kb_ids", sa.JSON, nullable=False, doc="JSON list: knowledge bases that were searched"),
    sa.Column("top_k", sa.Integer, nullable=False, doc="passages asked for"),
    sa.Column("settings_hash", ShortText(64), nullable=False, doc="hash of the settings that decide ranking"),
    sa.Column(
        "detail",
        sa.JSON,
        nullable=False,
        doc="JSON: candidates of each channel, passages answered with, milliseconds, table versions",
    ),
    info={"about": "A row per search: what was asked and what was answered, without names of callers."},
)


model_calls = sa.Table(
    "model_calls",
    metadata,
    sa.Column("service", sa.String(16), primary_key=True, doc="embedder, llm, …"),
    sa.Column("model", sa.Text, primary_key=True, doc="provider/model@revision"),
    sa.Column("recipe", sa.Text, primary_key=True, doc="everything beside input and model that shapes the result"),
    sa.Column("input_sha256", sa.String(64), primary_key=True, doc="of the input; of all inputs where a batch is free"),
    sa.Column("status", sa.String(8), nullable=False, doc="reserved, done or failed"),
    sa.Column("kb_id", sa.String(40), nullable=False, doc="knowledge base it was made for first"),
    sa.Column("source_id", sa.String(40), nullable=False, doc="source it was made for first"),
    sa.Column("document_id", sa.String(25), index=True, doc="document it was made for first; empty for a free batch"),
    sa.Column("inputs", sa.Integer, nullable=False, doc="texts in the call"),
    sa.Column("tokens", sa.Integer, nullable=False, doc="tokens sent"),
    sa.Column("cost_usd", sa.Float, nullable=False, doc="what it cost, or what is set aside for it"),
    sa.Column("latency_ms", sa.Float, nullable=False, doc="how long it took, with the others of its batch"),
    sa.Column("result", sa.LargeBinary, doc="what came back, for the next who asks; empty for free models"),
    sa.Column("error", PlainText, doc="why it failed"),
    sa.Column("run_id", sa.String(64), nullable=False, doc="Dagster run"),
    sa.Column("at", _TIME, nullable=False, doc="when"),
    sa.Index("ix_model_calls_spent", "kb_id", "at"),
    info={"about": "Every model call with its cost. What was paid for is kept, so that it is never paid for twice."},
)

forgotten = sa.Table(
    "forgotten",
    metadata,
    sa.Column(
        "identity", ShortText(64), primary_key=True, doc="keyed hash of the document's id: says nothing by itself"
    ),
    sa.Column("kb_id", ShortText(40), nullable=False, index=True, doc="knowledge base"),
    sa.Column("by", PlainText, nullable=False, doc="who asked for it"),
    sa.Column("at", _TIME, nullable=False, doc="when it was asked for"),
    sa.Column("completed_at", _TIME, doc="when nothing was left; empty while something still waits"),
    info={"about": "Documents that were forgotten and must not come back. No title, no address, no text."},
)


TEXTS = (kb_sources, kb_documents, ledger, retrieval_events)
"""Tables that say what a document is called or holds; `forgetting` leaves nothing of it in them."""


def as_markdown() -> str:
    """The catalog as a document: the end of `docs/tables.md`."""
    lines = ["# Catalog", "", "Made by `make docs` from `kb_pipeline/storage/tables.py`; SQLite or Postgres.", ""]
    for table in metadata.sorted_tables:
        key = ", ".join(column.name for column in table.primary_key)
        lines += [f"## {table.name}", "", str(table.info["about"]), "", f"Key: {key}", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        for column in table.columns:
            kind = "timestamp, UTC" if isinstance(column.type, UtcTime) else str(column.type).lower()
            lines.append(f"| {column.name} | {kind}{' ∅' if column.nullable else ''} | {column.doc} |")
        lines.append("")
    return "\n".join(lines)
