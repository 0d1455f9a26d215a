"""Every model call with its cost, and what a knowledge base may spend.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the ledger of calls and the budget."""
    op.create_table(
        "model_calls",
        sa.Column("service", sa.String(length=16), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("recipe", sa.Text(), nullable=False),
        sa.Column("input_sha256", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("kb_id", sa.String(length=40), nullable=False),
        sa.Column("source_id", sa.String(length=40), nullable=False),
        sa.Column("document_id", sa.String(length=25), nullable=True),
        sa.Column("inputs", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=False),
        sa.Column("latency_ms", sa.Float(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("service", "model", "recipe", "input_sha256"),
    )
    op.create_index("ix_model_calls_spent", "model_calls", ["kb_id", "at"], unique=False)
    op.create_index(op.f("ix_model_calls_document_id"), "model_calls", ["document_id"], unique=False)
    op.add_column("knowledge_bases", sa.Column("budget_usd", sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("knowledge_bases", "budget_usd")
    op.drop_index(op.f("ix_model_calls_document_id"), table_name="model_calls")
    op.drop_index("ix_model_calls_spent", table_name="model_calls")
    op.drop_table("model_calls")
