"""The one partitions definition of group `sync`, and who owns the assets. Why by source: docs/adr/0001."""

import dagster as dg

source_partitions = dg.DynamicPartitionsDefinition(name="source")
"""Keys are `<kb_id>--<source_id>`, made by ids.source_partition."""

OWNERS = ["team:knowledge-bases"]
