"""Where everything lies below the storage root. The only place that builds a path."""

from dataclasses import dataclass
from pathlib import Path

from kb_pipeline.errors import UsageError
from kb_pipeline.settings import Settings

SPLIT_FOLDER = "split_id="


def require_home(settings: Settings) -> None:
    """Raises: UsageError: there is no home where the settings say; reading makes none."""
    catalog = Layout.of(settings).catalog
    if settings.kb_database_url is None and not catalog.exists():
        raise UsageError(
            f"{catalog.parent} is no home of knowledge bases: set KB_HOME to yours, or make one with `kb init`."
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one home.

    Attributes:
        home: KB_HOME: catalog, Dagster's own state, exported models.
        root: root of blobs, Parquet and LanceDB.
    """

    home: Path
    root: Path

    @classmethod
    def of(cls, settings: Settings) -> "Layout":
        return cls(home=settings.kb_home, root=settings.storage_root)

    @property
    def catalog(self) -> Path:
        return self.home / "catalog.sqlite"

    @property
    def dagster(self) -> Path:
        return self.home / "dagster"

    @property
    def models(self) -> Path:
        return self.home / "models"

    @property
    def locks(self) -> Path:
        return self.home / "locks"

    @property
    def forget_key(self) -> Path:
        """Key under which forgotten documents are remembered."""
        return self.root / "forget.key"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def parquet(self) -> Path:
        return self.root / "parquet"

    def dataset(self, table: str, kb_id: str, source_id: str, split_id: str = "") -> Path:
        """Folder of one source's part files of a Parquet dataset; a folder each for several ways of splitting."""
        folder = self.parquet / table / f"kb_id={kb_id}" / f"source_id={source_id}"
        return folder / f"{SPLIT_FOLDER}{split_id}" if split_id else folder
