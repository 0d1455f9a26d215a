"""Which spaces a sync works on, how texts are split and embedded for each, and what is kept of those before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from kb_pipeline.assets.stage import StageRun
from kb_pipeline.errors import KbError, UsageError
from kb_pipeline.lifecycle.spaces import drop_outdated
from kb_pipeline.records import Space, vector_space_of
from kb_pipeline.schemas import CHUNKS
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.services.embedders import Embedders
from kb_pipeline.settings import Settings
from kb_pipeline.stages.chunk import SplitRules
from kb_pipeline.storage.catalog_records import KbSpace
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.store import Store


@dataclass(frozen=True, slots=True)
class SpaceWork:
    """A space of a knowledge base as a sync meets it.

    Attributes:
        embedder: None where nothing is added any more: search left the space, or the model is not the one that made it.
    """

    space: KbSpace
    embedder: Embedder | None

    @property
    def is_served(self) -> bool:
        """Whether search reads it."""
        return self.space.role == "serving"

    @property
    def built_with(self) -> Embedder:
        """The embedder; only where something is added."""
        if self.embedder is None:
            raise ValueError(f"nothing is added to {self.space.space_id}")
        return self.embedder

    @property
    def rules(self) -> SplitRules:
        """How its texts are split; only where something is added."""
        return _rules(self.space.chunk_unit, self.space.chunk_size, self.space.chunk_overlap, self.built_with)

    @property
    def table_space(self) -> Space:
        """The space with its splitting, as its table is named; only where something is added."""
        return replace(self.built_with.space, split=self.rules.name)


def wanted_space(store: Store, kb_id: str, embedders: Embedders) -> KbSpace:
    """The space that a knowledge base's settings ask for.

    Raises: KbError: its model cannot be had.
    """
    settings = store.settings_of(store.catalog.knowledge_base(kb_id))
    embedder = embedders.named(settings.embedding_model)
    rules = rules_of(settings, embedder)
    return KbSpace(
        kb_id=kb_id,
        space_id=replace(embedder.space, split=rules.name).space_id,
        split_id=split_id(rules, embedder),
        embedding_model=settings.embedding_model,
        chunk_unit=rules.unit,
        chunk_size=rules.size,
        chunk_overlap=rules.overlap,
        role="candidate",
        since=datetime.now(UTC),
    )


def spaces_to_sync(store: Store, kb_id: str, embedders: Embedders) -> tuple[list[SpaceWork], UsageError | None]:
    """The spaces a sync has to see to, the serving one first, and why there is not the one that is wanted.

    Where the model that the settings name cannot be had, what search reads goes on being fed all the same.

    Raises: UsageError: so it is, and nothing else can be fed.
    """
    try:
        return works_of(store.spaces.want(wanted_space(store, kb_id, embedders)), embedders), None
    except KbError as error:
        problem = UsageError(f"{kb_id} cannot be embedded by the model that is set: {error}")
        works = works_of(store.spaces.of(kb_id), embedders)
        if not works or not works[0].embedder:
            raise problem from error
        return works, problem


def works_of(spaces: Sequence[KbSpace], embedders: Embedders) -> list[SpaceWork]:
    """Spaces with their embedders, but for those about to be removed."""
    return [SpaceWork(space, _embedder(space, embedders)) for space in spaces if space.role != "dropped"]


def rules_of(settings: Settings, embedder: Embedder) -> SplitRules:
    """How documents are split under these settings."""
    size, overlap = settings.split_sizes
    return _rules(settings.chunk_unit, size, overlap, embedder)


def split_id(rules: SplitRules, embedder: Embedder) -> str:
    """Name of a way of splitting; tokens are those of one model."""
    if rules.unit == "chars":
        return rules.name
    return f"{rules.name}-{embedder.space.vector_space_id.rsplit('-', 1)[1]}"


def drop_outdated_chunks(run: StageRun) -> None:
    """Remove the chunks of documents that have changed or left since they were split; nothing is made anew."""
    dataset = run.store.dataset(CHUNKS, run.source, run.space)
    run.heal_dataset(dataset)
    run.retire(run.store.ledger.outdated(run.lane, run.upstream("documents")), dataset.delete)


def drop_outdated_rows(run: StageRun, space: KbSpace, index: ChunkIndex) -> None:
    """The same for rows of the index."""
    kb_id, source_id = run.source.kb_id, run.source.source_id
    delete = partial(index.delete_documents, kb_id)
    run.heal(index.count_rows(kb_id, source_id), lambda: index.document_ids(kb_id, source_id), delete)
    outdated = drop_outdated(run.store, space, source_id)
    run.count(removed=len(outdated))
    if run.is_served:
        run.store.documents.update({"document_id": document, "chunks": 0} for document in outdated)


def _rules(unit: str, size: int, overlap: int, embedder: Embedder) -> SplitRules:
    if unit == "tokens":
        return SplitRules(size=size, overlap=overlap, unit="tokens", count_tokens=embedder.count_tokens)
    return SplitRules(size=size, overlap=overlap)


def _embedder(space: KbSpace, embedders: Embedders) -> Embedder | None:
    if space.role == "previous":
        return None
    try:
        embedder = embedders.named(space.embedding_model)
    except KbError:  # the settings name another by now, and that one is here
        return None
    return embedder if embedder.space.vector_space_id == vector_space_of(space.space_id) else None
