"""Who asks. Every read takes a caller; what it may see follows from nothing else."""

from dataclasses import dataclass

from kb_pipeline import ids
from kb_pipeline.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A user of a client's account. Without either, only public knowledge bases are seen.

    Attributes:
        is_operator: the person at the machine, who sees every knowledge base; never set it from a request.

    """

    user_id: str | None = None
    client_id: str | None = None
    is_operator: bool = False

    def __post_init__(self) -> None:
        """Raises: UsageError: a name that is no text, or none that any account could have."""
        for name in (self.user_id, self.client_id):
            if name is not None and not (isinstance(name, str) and name.isprintable()):
                raise UsageError(f"A caller is named by printable text, not by {name!r}.")

    @property
    def hash(self) -> str:
        """What events keep instead of the names."""
        return ids.sha256_hex("operator" if self.is_operator else "", self.user_id or "", self.client_id or "")


ANONYMOUS = Caller()
OPERATOR = Caller(is_operator=True)
