"""When a document was missed in a listing, and when a failed unit is tried again.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; failures that were tried at every sync are due at once."""
    op.add_column("kb_documents", sa.Column("missing_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("ledger", sa.Column("next_try_at", sa.DateTime(timezone=True), nullable=True))
    op.execute(
        "UPDATE ledger SET next_try_at = updated_at "
        "WHERE status = 'failed' AND error_kind IN ('auth', 'blocked', 'budget', 'bug', 'transient')"
    )


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("ledger", "next_try_at")
    op.drop_column("kb_documents", "missing_since")
