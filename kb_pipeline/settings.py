"""Every setting: environment name, default, unit. The only reader of the environment."""

import os
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

Seconds = Annotated[float, Field(le=86_400, allow_inf_nan=False)]
"""Up to a day: no clock or socket takes an endless wait."""
_TEN_YEARS_S = 10 * 366 * 86_400
Bytes = Annotated[int, Field(gt=0, le=2**40)]
_HOST = re.compile(r"(?!-)[\w-]{1,63}(\.(?!-)[\w-]{1,63})*\.?")


def usable_cores() -> int:
    """Cores this process may use, at least 1."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class Settings(BaseModel):
    """Read once, when a process starts; frozen. Names in the environment are the upper-case field names.

    What is given to the constructor counts before the environment. Not a `pydantic_settings` model: that library's
    import costs every command as much as pydantic's own, for what are three lines here.

    Raises: pydantic.ValidationError: a value is malformed.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", validate_default=True)

    # Where things are
    kb_home: Path = Field(
        Path("kb_home"),
        description="Folder that holds everything; its path has no `?`, backslash or control character.",
    )
    kb_database_url: SecretStr | None = Field(
        None,
        description="Database of the catalog and of Dagster's runs, postgresql://user:password@host/name; "
        "default SQLite in KB_HOME.",
    )
    kb_storage: str | None = Field(None, description="Folder for blobs, Parquet and LanceDB; default KB_HOME.")

    # Splitting
    chunk_size: int = Field(1000, ge=50, le=20_000, description="Longest chunk, in CHUNK_UNIT.")
    chunk_overlap: int = Field(
        200, ge=0, description="Overlap of neighbouring chunks, in CHUNK_UNIT; at most half of CHUNK_SIZE is used."
    )
    chunk_unit: Literal["chars", "tokens"] = Field(
        "chars", description="Unit of the two above; tokens defaults to 800/80."
    )

    # Models
    embedding_model: str = Field(
        "all-MiniLM-L6-v2",
        description="all-MiniLM-L6-v2 (packaged), a sentence-transformers name or folder, or fake:<name>:<dims>.",
    )
    embedding_batch: int = Field(8, ge=1, le=1024, description="Texts per pass of a sentence-transformers model.")
    threads: int = Field(default_factory=usable_cores, ge=1, description="Threads of the embedder.")

    prices_file: Path | None = Field(
        None, description="CSV of your own prices of models, read before those that come along (prices.csv)."
    )

    # Index
    index_keep_versions_s: int = Field(
        3_600,
        ge=60,
        le=_TEN_YEARS_S,
        description="Older versions of a search table are removed; no search takes this long. Seconds.",
    )

    index_keep_spaces_s: int = Field(
        7 * 86_400,
        ge=0,
        le=_TEN_YEARS_S,
        description="A space that search left stays this long for `kb rollback`. Seconds.",
    )

    # Query
    hybrid_search_enabled: bool = Field(True, description="Search the sparse channel beside the dense one.")

    # Outside world
    http_allow: str = Field(
        "",
        description="Comma-separated hosts, host:port or CIDR ranges that may be private addresses (tests, intranets).",
    )
    http_route: str = Field(
        "",
        description="Comma-separated name=host:port pairs (`*.example=127.0.0.1:8123`): requests to these names "
        "go there, by plain HTTP and without resolving. For tests and for intranet gateways.",
    )
    http_timeout_s: Seconds = Field(30.0, gt=0, description="Whole time of one request, seconds.")
    http_max_bytes: Bytes = Field(20_000_000, description="Largest response body after decompression, bytes.")
    http_max_page_bytes: Bytes = Field(10_000_000, description="Largest web page, feed or other text answer, bytes.")
    http_host_interval_s: Seconds = Field(
        0.5, ge=0, description="Least time between two requests to one host, seconds."
    )
    http_user_agent: str = Field("kb-pipeline/0.1", description="User-Agent sent.")

    # Files
    max_file_bytes: Bytes = Field(200_000_000, description="Largest file read, bytes.")
    max_expanded_bytes: Bytes = Field(100_000_000, description="Largest expanded size of an archive-like file, bytes.")
    parse_timeout_s: Seconds = Field(120.0, gt=0, description="Deadline of one file's parse, seconds.")
    parse_memory_mb: int = Field(2_048, gt=0, le=2**20, description="Address-space headroom of a parser process, MiB.")

    # Work
    max_concurrent_jobs: int = Field(5, ge=1, description="Runs at once under the Dagster daemon.")
    batch_documents: int = Field(256, ge=1, description="Documents worked on and committed at once.")

    def __init__(self, **given: Any) -> None:
        found = {name: os.environ[name.upper()] for name in type(self).model_fields if os.environ.get(name.upper())}
        super().__init__(**{**found, **given})

    @field_validator("kb_home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return _usable(value)

    @field_validator("kb_storage")
    @classmethod
    def _usable_storage(cls, value: str | None) -> str | None:
        return str(_usable(Path(value))) if value else None

    @field_validator("http_allow")
    @classmethod
    def _hosts(cls, value: str) -> str:
        for entry in filter(None, (part.strip() for part in value.split(","))):
            if not _is_host_or_network(entry):
                raise ValueError(f"{entry!r} is neither a host, a host:port nor a range such as 10.2.0.0/16")
        return value

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        size = 800 if self.chunk_unit == "tokens" and "chunk_size" not in self.model_fields_set else self.chunk_size
        if "chunk_overlap" in self.model_fields_set and self.chunk_overlap >= size:
            raise ValueError(f"CHUNK_OVERLAP ({self.chunk_overlap}) has to be smaller than CHUNK_SIZE ({size})")
        return self

    @property
    def storage_root(self) -> Path:
        """Root of blobs, Parquet and LanceDB."""
        return Path(self.kb_storage) if self.kb_storage else self.kb_home

    @property
    def demo_files(self) -> Path:
        """Where `kb demo` writes what it reads: the one folder of the home that may be a source."""
        return self.kb_home / "demo-files"

    @property
    def split_sizes(self) -> tuple[int, int]:
        """(size, overlap) in CHUNK_UNIT; 800/80 where tokens are asked for and no size is set."""
        if self.chunk_unit == "tokens" and "chunk_size" not in self.model_fields_set:
            overlap = self.chunk_overlap if "chunk_overlap" in self.model_fields_set else 80
            return 800, min(overlap, 400)
        return self.chunk_size, min(self.chunk_overlap, self.chunk_size // 2)


def _is_host_or_network(entry: str) -> bool:
    try:
        ip_network(entry.strip("[]"), strict=False)
        return True
    except ValueError:
        host, separator, port = entry.rpartition(":")
        host, is_port = (host, port.isdecimal() and 0 < int(port[:9]) < 65_536) if separator else (entry, True)
    if host.startswith("[") and host.endswith("]"):
        return is_port and _is_host_or_network(host)
    return is_port and bool(_HOST.fullmatch(host))


def _usable(folder: Path) -> Path:
    """The folder, absolute. Raises: ValueError: its path has a character that a library underneath takes for its own.

    DuckDB takes a backslash for a separator whatever is done about it; Dagster's SQLite addresses end at a question
    mark; a control character cannot be shown in the sentences that name the path.
    """
    try:
        path = folder.expanduser().absolute()
    except RuntimeError:
        raise ValueError(f"{str(folder)!r} begins with the home of a user who is not known here") from None
    if any(char in "\\?" or not char.isprintable() for char in str(path)):
        raise ValueError(
            f"{str(path)!r} has a question mark, a backslash or a character that cannot be printed in it; "
            "use a folder without"
        )
    return path


def child_environment() -> dict[str, str]:
    """What a sandboxed child sees of the environment: no keys, no settings, only what an interpreter needs."""
    passed = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "PYTHONHOME", "SYSTEMROOT")
    quiet = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {name: os.environ[name] for name in passed if name in os.environ} | quiet


def as_markdown() -> str:
    """The settings as a document: `docs/settings.md` is exactly this."""
    lines = [
        "# Settings",
        "",
        "Made by `make docs` from `kb_pipeline/settings.py`. All come from the environment; empty means not set.",
        "",
    ]
    lines += ["| name | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "cores of the machine" if field.default_factory else field.default
        shown = "" if default in (None, "") else f"`{default}`" if not field.default_factory else default
        lines.append(f"| {name.upper()} | {shown} | {field.description} |")
    return "\n".join([*lines, ""])
