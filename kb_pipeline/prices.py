"""What model calls cost: a table with dates, so that last month's calls keep last month's price."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from kb_pipeline.errors import UsageError

PACKAGED = Path(__file__).with_name("prices.csv")
_COLUMNS = ("service", "provider", "model", "usd_per_million_tokens", "valid_from")


@dataclass(frozen=True, slots=True)
class Price:
    """A price from a day on; `model` may be `*` for all of a provider."""

    service: str
    provider: str
    model: str
    usd_per_million_tokens: float
    valid_from: date


class Prices:
    """The packaged prices, and before them those of a file of the home's own.

    Args:
        file: CSV with the columns of prices.csv.
    Raises: UsageError: a line of the file is malformed.
    """

    def __init__(self, file: Path | None = None) -> None:
        own = list(_read(file)) if file else []
        self._prices = [*own, *_read(PACKAGED)]

    def usd_per_token(self, service: str, provider: str, model: str, day: date) -> float:
        """The newest price of a model on a day; a model by name goes before `*`, the home's own before the packaged.

        Raises: UsageError: there is none, so nobody could say what a call costs.
        """
        for name in (model, "*"):
            known = [
                price
                for price in self._prices
                if (price.service, price.provider, price.model) == (service, provider, name) and price.valid_from <= day
            ]
            if known:
                return max(known, key=lambda price: price.valid_from).usd_per_million_tokens / 1e6
        raise UsageError(
            f"Nobody knows what {service} {provider}/{model} costs: add a line to the file of PRICES_FILE "
            f"({', '.join(_COLUMNS)}); 0 if it costs nothing."
        )


def _read(file: Path) -> Iterator[Price]:
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            for number, row in enumerate(csv.DictReader(lines), start=2):
                yield _price(row, f"{file} line {number}")
    except OSError as error:
        raise UsageError(f"The prices in {file} cannot be read: {error.strerror}.") from None


def _price(row: Mapping[str, str | None], where: str) -> Price:
    values = {name: (row.get(name) or "").strip() for name in _COLUMNS}
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise UsageError(f"{where}: {missing[0]} is missing.")
    try:
        amount, day = float(values["usd_per_million_tokens"]), date.fromisoformat(values["valid_from"])
    except ValueError as error:
        raise UsageError(f"{where}: {error}.") from None
    if not 0 <= amount < float("inf"):
        raise UsageError(f"{where}: a price is 0 or more, got {amount}.")
    return Price(values["service"], values["provider"], values["model"], amount, day)
