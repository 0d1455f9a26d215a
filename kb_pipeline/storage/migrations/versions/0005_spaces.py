"""Several spaces of a knowledge base beside each other, settings of its own, and a ledger that tells spaces apart.

What was split and indexed before is made anew from the stored documents, with the vectors that are there.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_WITHOUT_SPACE = sa.text("DELETE FROM ledger WHERE stage IN ('chunks', 'chunk_index')")


def upgrade() -> None:
    """Add the spaces; the ledger's rows of splitting and indexing say of none, so they go."""
    op.create_table(
        "kb_spaces",
        sa.Column("kb_id", sa.String(length=40), nullable=False),
        sa.Column("space_id", sa.String(length=100), nullable=False),
        sa.Column("split_id", sa.String(length=40), nullable=False),
        sa.Column("embedding_model", sa.Text(), nullable=False),
        sa.Column("chunk_unit", sa.String(length=8), nullable=False),
        sa.Column("chunk_size", sa.Integer(), nullable=False),
        sa.Column("chunk_overlap", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=12), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["kb_id"], ["knowledge_bases.kb_id"]),
        sa.PrimaryKeyConstraint("kb_id", "space_id"),
    )
    op.add_column("knowledge_bases", sa.Column("settings", sa.JSON(), nullable=False, server_default="{}"))
    op.execute(_WITHOUT_SPACE)
    _change_ledger_key(["stage", "unit", "space"], adds=sa.Column("space", sa.String(100), nullable=False))


def downgrade() -> None:
    """Drop them."""
    op.execute(_WITHOUT_SPACE)
    _change_ledger_key(["stage", "unit"], drops="space")
    op.drop_column("knowledge_bases", "settings")
    op.drop_table("kb_spaces")


def _change_ledger_key(key: list[str], adds: sa.Column[str] | None = None, drops: str | None = None) -> None:
    """Give the ledger another primary key; SQLite has to copy the table for that, so it is done in one batch."""
    naming = {"pk": "ledger_pkey"}  # the name Postgres gave it
    with op.batch_alter_table("ledger", naming_convention=naming) as batch:
        batch.drop_constraint("ledger_pkey", type_="primary")
        if adds is not None:
            adds.server_default = sa.DefaultClause("")
            batch.add_column(adds)
        if drops:
            batch.drop_column(drops)
        batch.create_primary_key("ledger_pkey", key)
