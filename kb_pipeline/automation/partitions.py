"""How assets are partitioned, and who owns them. Group `sync` goes by source; why: docs/adr/0001."""

import dagster as dg

source_partitions = dg.DynamicPartitionsDefinition(name="source")
"""Keys are `<kb_id>--<source_id>`, made by ids.source_partition."""

tenant_partitions = dg.DynamicPartitionsDefinition(name="tenant")
"""Keys are the tenants of the knowledge bases: `public`, `account-<client>`, `user-<owner>`."""

MAINTENANCE_POOL = "index_maintenance"
"""Of one slot: one maintenance at a time in the home."""

OWNERS = ["team:knowledge-bases"]
