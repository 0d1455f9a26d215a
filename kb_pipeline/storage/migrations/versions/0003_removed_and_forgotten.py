"""Sources that were removed, and documents that were forgotten.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what keeps a removed source's id and a forgotten document's identity from coming back."""
    op.add_column("kb_sources", sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "forgotten",
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("kb_id", sa.String(length=40), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("identity"),
    )
    op.create_index(op.f("ix_forgotten_kb_id"), "forgotten", ["kb_id"], unique=False)


def downgrade() -> None:
    """Drop them."""
    op.drop_index(op.f("ix_forgotten_kb_id"), table_name="forgotten")
    op.drop_table("forgotten")
    op.drop_column("kb_sources", "removed_at")
