"""The catalog's tables. A change here needs a migration beside it, in storage/migrations/versions."""

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


metadata = sa.MetaData()
_TIME = UtcTime()

knowledge_bases = sa.Table(
    "knowledge_bases",
    metadata,
    sa.Column("kb_id", sa.String(40), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False, default=""),
    sa.Column("scope", sa.String(8), nullable=False),
    sa.Column("tenant", sa.String(80), nullable=False, index=True),
    sa.Column("owner", sa.Text, nullable=False, default=""),
    sa.Column("client_id", sa.Text, nullable=False, default=""),
    sa.Column("agency_id", sa.Text, nullable=False, default=""),
    sa.Column("created_at", _TIME, nullable=False),
)

kb_sources = sa.Table(
    "kb_sources",
    metadata,
    sa.Column("source_id", sa.String(40), primary_key=True),
    sa.Column("kb_id", sa.ForeignKey("knowledge_bases.kb_id"), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("connector", sa.String(32), nullable=False),
    sa.Column("input", sa.Text, nullable=False),
    sa.Column("options", sa.JSON, nullable=False, default=dict),
    sa.Column("namespace", sa.String(16), nullable=False, default=""),
    sa.Column("every_s", sa.Integer),
    sa.Column("cron", sa.Text),
    sa.Column("state", sa.JSON, nullable=False, default=dict),
    sa.Column("syncs", sa.Integer, nullable=False, default=0),
    sa.Column("due_at", _TIME, index=True),
    sa.Column("listed_at", _TIME),
    sa.Column("status", sa.String(16), nullable=False, default="pending"),
    sa.Column("error_kind", sa.String(16)),
    sa.Column("error", sa.Text),
    sa.Column("created_at", _TIME, nullable=False),
)

kb_documents = sa.Table(
    "kb_documents",
    metadata,
    sa.Column("document_id", sa.String(25), primary_key=True),
    sa.Column("kb_id", sa.String(40), nullable=False),
    sa.Column("source_id", sa.String(40), nullable=False),
    sa.Column("external_id", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False, default=""),
    sa.Column("url", sa.Text),
    sa.Column("author", sa.Text),
    sa.Column("published_at", _TIME),
    sa.Column("is_partial", sa.Boolean, nullable=False, default=False),
    sa.Column("warnings", sa.JSON, nullable=False, default=list),
    sa.Column("status", sa.String(12), nullable=False),
    sa.Column("error_kind", sa.String(16)),
    sa.Column("error", sa.Text),
    sa.Column("chunks", sa.Integer, nullable=False, default=0),
    sa.Column("content_hash", sa.String(64)),
    sa.Column("cost_usd", sa.Float, nullable=False, default=0.0),
    sa.Column("run_id", sa.String(64)),
    sa.Column("created_at", _TIME, nullable=False),
    sa.Column("updated_at", _TIME, nullable=False),
    sa.Index("ix_documents_source", "kb_id", "source_id", "status"),
)

ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("stage", sa.String(24), primary_key=True),
    sa.Column("unit", sa.String(25), primary_key=True),
    sa.Column("kb_id", sa.String(40), nullable=False),
    sa.Column("source_id", sa.String(40), nullable=False),
    sa.Column("status", sa.String(8), nullable=False),
    sa.Column("input_hash", sa.Text, nullable=False),
    sa.Column("recipe", sa.String(64), nullable=False),
    sa.Column("output_hash", sa.String(64), nullable=False, default=""),
    sa.Column("rows", sa.Integer, nullable=False, default=0),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("error_kind", sa.String(16)),
    sa.Column("error", sa.Text),
    sa.Column("tokens", sa.Integer, nullable=False, default=0),
    sa.Column("cost_usd", sa.Float, nullable=False, default=0.0),
    sa.Column("run_id", sa.String(64)),
    sa.Column("updated_at", _TIME, nullable=False),
    sa.Index("ix_ledger_partition", "kb_id", "source_id", "stage"),
)

retrieval_events = sa.Table(
    "retrieval_events",
    metadata,
    sa.Column("event_id", sa.String(40), primary_key=True),
    sa.Column("at", _TIME, nullable=False, index=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("caller_hash", sa.String(64), nullable=False),
    sa.Column("kb_ids", sa.JSON, nullable=False),
    sa.Column("top_k", sa.Integer, nullable=False),
    sa.Column("settings_hash", sa.String(64), nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
)
