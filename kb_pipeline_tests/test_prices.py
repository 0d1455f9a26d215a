"""Prices: by day, by model before provider, the home's own before the packaged; unknown is not free."""

from datetime import date

import pytest

from kb_pipeline.errors import UsageError
from kb_pipeline.prices import Prices

HEADER = "service,provider,model,usd_per_million_tokens,valid_from\n"
TODAY = date(2026, 11, 30)


def prices(tmp_path, *lines):
    file = tmp_path / "prices.csv"
    file.write_text(HEADER + "\n".join(lines) + "\n")
    return Prices(file)


def test_the_packaged_model_costs_nothing():
    assert Prices().usd_per_token("embedder", "local", "all-MiniLM-L6-v2", TODAY) == 0


def test_a_price_counts_from_its_day_on(tmp_path):
    found = prices(tmp_path, "embedder,cloud,m,2,2026-01-01", "embedder,cloud,m,3,2026-12-01")
    assert found.usd_per_token("embedder", "cloud", "m", TODAY) == 2e-6
    assert found.usd_per_token("embedder", "cloud", "m", date(2026, 12, 1)) == 3e-6


def test_a_model_goes_before_its_provider_and_the_own_file_before_the_packaged(tmp_path):
    found = prices(tmp_path, "embedder,local,*,1,2020-01-01", "embedder,local,m,5,2020-01-01")
    assert found.usd_per_token("embedder", "local", "m", TODAY) == 5e-6
    assert found.usd_per_token("embedder", "local", "other", TODAY) == 1e-6


def test_what_nobody_knows_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="cloud/m costs: add a line to the file of PRICES_FILE"):
        prices(tmp_path, "embedder,cloud,m,2,2027-01-01").usd_per_token("embedder", "cloud", "m", TODAY)


@pytest.mark.parametrize("rest", ["cloud,m,cheap,2026-01-01", "cloud,m,-1,2026-01-01", ",m,1,2026-01-01", "c,m,1,x"])
def test_a_malformed_line_is_named(tmp_path, rest):
    with pytest.raises(UsageError, match=r"prices\.csv line 2: "):
        prices(tmp_path, f"embedder,{rest}")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.csv cannot be read"):
        Prices(tmp_path / "none.csv")
