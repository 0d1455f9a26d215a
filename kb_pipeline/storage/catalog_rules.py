"""What both ways of reading the catalog must agree on: its newest migration, how long to wait, who sees what."""

HEAD = "0005"
"""Newest migration; a test holds it against storage/migrations/versions."""
BUSY_TIMEOUT_MS = 60_000
VISIBLE = (
    "(scope = 'public' OR (scope = 'user' AND owner = :user_id) OR (scope = 'account' AND client_id = :client_id))"
)
"""Condition on knowledge_bases: what a caller who is not the operator may see. None for a caller without one."""
