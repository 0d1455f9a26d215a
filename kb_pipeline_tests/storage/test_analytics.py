"""SQL over a home whose path looks like a pattern: its own rows and nobody else's."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pydantic import ValidationError

from kb_pipeline.schemas import RAW_ITEMS
from kb_pipeline.settings import Settings
from kb_pipeline.storage.analytics import Analytics
from kb_pipeline.storage.store import Store, table_of


def a_value(kind):
    return "x" if pa.types.is_string(kind) else datetime.now(UTC) if pa.types.is_timestamp(kind) else 0


def filled(home):
    """A store in which one raw item says which home it is in."""
    store = Store(Settings(kb_home=home))
    store.initialise()
    store.catalog.create_knowledge_base("k")
    source = store.catalog.add_source("k", "document", "/x")
    needed = {field.name: a_value(field.type) for field in RAW_ITEMS.schema if not field.nullable}
    row = {**needed, "document_id": "d", "external_id": home.name}
    store.dataset(RAW_ITEMS, source).replace(table_of(RAW_ITEMS, [row]), ["d"])
    return store


@pytest.mark.parametrize("name", ["h*", "h[1]", "[h", "**", "h'q", "h{1,2}", "h%20b", "h#b", "h b", "h[!1]"])
def test_a_home_whose_name_is_a_pattern_shows_its_own_rows_only(tmp_path, name):
    stores = [filled(tmp_path / other) for other in ("h1", "h2", name)]
    assert Analytics(stores[-1]).query("SELECT external_id FROM raw_items")[1] == [(name,)]
    assert Analytics(stores[-1]).query("SELECT count(*) FROM chunks")[1] == [(0,)]
    for store in stores:
        store.catalog.engine.dispose()


@pytest.mark.parametrize("name", ["h?b", "h\\b", "h\nb", "h\udcffb"])
@pytest.mark.parametrize("field", ["kb_home", "kb_storage"])
def test_a_folder_that_the_libraries_cannot_address_is_refused(tmp_path, name, field):
    with pytest.raises(ValidationError, match="use a folder without"):
        Settings(**{field: str(tmp_path / name)})


def test_a_home_of_an_unknown_user_is_refused():
    with pytest.raises(ValidationError, match="not known here"):
        Settings(kb_home="~nobody-of-this-name/home")


def test_columns_of_equal_names_are_told_apart(tmp_path):
    store = filled(tmp_path / "home")
    columns, rows = Analytics(store).query("SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a")
    assert (columns, rows) == (["a", "a_1", "a_1_1", "a_2"], [(1, 2, 3, 4)])
    store.catalog.engine.dispose()
