"""What Dagster shows of a tenant's maintenance: counts before and after, and checks of the state it left."""

from collections.abc import Callable

import dagster as dg

from kb_pipeline.lifecycle.maintenance import TableUpkeep, TenantUpkeep
from kb_pipeline.storage.lance_segments import FRAGMENT_ROWS
from kb_pipeline.storage.lance_statistics import IndexStatistics

CHECKS: dict[str, str] = {
    "few_fragments": "Rows lie in as few files as their number needs, and each index in one segment.",
    "few_versions": "No version is kept that is older than any search needs.",
    "indexes_cover_rows": "Full-text, scalar and vector indexes cover every row.",
    "no_orphans": "Every row is of a document that its source holds, in the tenant it belongs to.",
    "keys_are_unique": "No key occurs twice.",
}
_SPARE_FRAGMENTS = 4  # a sync that works meanwhile adds some
_ERRORS = frozenset({"keys_are_unique"})  # the others can be a sync at work, and are gone the next time


def metadata_of(upkeep: TenantUpkeep) -> dict[str, dg.MetadataValue]:
    """Counts before and after, summed over the tenant's tables, and a line per table."""
    before = [table.before for table in upkeep.tables]
    after = [table.after or IndexStatistics() for table in upkeep.tables]
    counts: dict[str, int] = {
        "dagster/row_count": sum(state.rows for state in after),
        "unindexed_rows": sum(state.unindexed_rows for state in after),
        "orphans_removed": sum(table.orphans_removed for table in upkeep.tables),
        "blobs_removed": upkeep.blobs_removed,
        "leftovers_removed": upkeep.leftovers_removed,
    }
    for name, of in _SIZES.items():
        counts[f"{name}_before"], counts[f"{name}_after"] = sum(map(of, before)), sum(map(of, after))
    shown: dict[str, dg.MetadataValue] = {name: dg.MetadataValue.int(count) for name, count in counts.items()}
    shown["seconds"] = dg.MetadataValue.float(upkeep.seconds)
    shown["done"] = dg.MetadataValue.json({table.space_id: table.done for table in upkeep.tables})
    shown["notes"] = dg.MetadataValue.json(upkeep.notes)
    return shown


_SIZES: dict[str, Callable[[IndexStatistics], int]] = {
    "fragments": lambda state: state.fragments,
    "versions": lambda state: state.versions,
    "files": lambda state: state.files,
    "bytes": lambda state: state.size_bytes,
}


def checks_of(upkeep: TenantUpkeep) -> list[dg.AssetCheckResult]:
    """A check passes if it does for every table; what is found is said for each that fails."""
    found: dict[str, list[str]] = {name: [] for name in CHECKS}
    for table in upkeep.tables:
        for name, sentence in _faults(table):
            found[name].append(f"{table.space_id}: {sentence}")
    return [
        dg.AssetCheckResult(
            check_name=name,
            passed=not sentences,
            severity=dg.AssetCheckSeverity.ERROR if name in _ERRORS else dg.AssetCheckSeverity.WARN,
            description=" | ".join(sentences) or None,
        )
        for name, sentences in found.items()
    ]


def _faults(table: TableUpkeep) -> list[tuple[str, str]]:
    """(check, what was found) of a table, for the checks it does not pass."""
    state = table.after or IndexStatistics()
    most = 2 * state.rows // FRAGMENT_ROWS + _SPARE_FRAGMENTS
    return [
        (name, sentence)
        for name, is_wrong, sentence in (
            ("few_fragments", state.fragments > most, f"{state.rows} rows lie in {state.fragments} fragments"),
            ("few_fragments", state.segments > _SPARE_FRAGMENTS, f"an index has {state.segments} segments"),
            ("few_versions", state.old_versions > 0, f"{state.old_versions} of {state.versions} versions are old"),
            ("indexes_cover_rows", state.unindexed_rows > 0, f"{state.unindexed_rows} rows are not indexed yet"),
            ("no_orphans", table.orphans_left > 0, f"{table.orphans_left} rows are of no document that is here"),
            ("keys_are_unique", state.duplicate_keys > 0, f"{state.duplicate_keys} keys occur twice"),
        )
        if is_wrong
    ]
