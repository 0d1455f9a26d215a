"""The dagster.yaml of a home: where runs are kept, and what happens to a file that is there already."""

import pytest
import sqlalchemy as sa
import yaml

from kb_pipeline.automation.instance import config_of, open_instance, write_config
from kb_pipeline.errors import SystemicError
from kb_pipeline.settings import Settings

URL = "postgresql://kb:pass-4711@db.example/kb"


@pytest.fixture
def on_postgres(settings):
    return Settings(kb_home=settings.kb_home, kb_database_url=URL)


def test_the_file_names_the_setting_and_holds_no_password(on_postgres):
    written = (write_config(on_postgres) / "dagster.yaml").read_text()
    assert yaml.safe_load(written)["storage"] == {"postgres": {"postgres_url": {"env": "KB_DATABASE_URL"}}}
    assert "4711" not in written


def test_a_home_that_moves_to_postgres_takes_its_runs_there_and_never_back(settings, on_postgres):
    file = write_config(settings) / "dagster.yaml"
    assert "storage" not in yaml.safe_load(file.read_text())
    write_config(on_postgres)
    assert file.read_text() == config_of(on_postgres)
    write_config(settings)
    assert file.read_text() == config_of(on_postgres)


def test_an_edited_file_stays(settings, on_postgres):
    file = write_config(settings) / "dagster.yaml"
    file.write_text(file.read_text() + "# mine\n")
    write_config(on_postgres)
    assert file.read_text().endswith("# mine\n")
    assert "storage" not in yaml.safe_load(file.read_text())


def test_a_process_without_the_address_is_told_so_in_one_sentence(settings, on_postgres):
    write_config(on_postgres)
    with pytest.raises(SystemicError, match=r"KB_DATABASE_URL.*\.$"), open_instance(settings):
        pass


@pytest.mark.databases("postgres")
def test_runs_are_kept_in_postgres(settings, database):
    import dagster as dg

    @dg.job
    def nothing(): ...

    with open_instance(settings) as instance:
        run_id = nothing.execute_in_process(instance=instance).run_id
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT run_id, status FROM public.runs")).all()
    engine.dispose()
    assert found == [(run_id, "SUCCESS")]
    assert not list(settings.kb_home.rglob("*.db"))
