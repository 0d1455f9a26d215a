"""kb.yaml: knowledge bases and their sources in one reviewed file. Unknown keys are errors with their line."""

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import NotVisible, UsageError
from kb_pipeline.sources import add_source, parse_schedule
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_records import KnowledgeBase


class SourceConfig(BaseModel):
    """A source: input, and how to treat it."""

    model_config = ConfigDict(extra="forbid")
    input: str
    type: str | None = None
    name: str | None = None
    every: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class BaseConfig(BaseModel):
    """A knowledge base with its sources."""

    model_config = ConfigDict(extra="forbid")
    name: str
    scope: Literal["user", "account", "public"] = "account"
    owner: str = ""
    client: str = ""
    agency: str = ""
    description: str = ""
    sources: list[SourceConfig] = Field(default_factory=list)


class FileConfig(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid")
    knowledge_bases: list[BaseConfig]


def load(path: Path) -> FileConfig:
    """Read and check a file.

    Raises: UsageError: not YAML, or a key or value that is not understood, with file and line.
    """
    text = path.read_text(encoding="utf-8")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return FileConfig.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise UsageError(f"{path}{line}: not valid YAML ({getattr(error, 'problem', error)}).") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path} line {_line_of(root, first['loc'])}: {where}: {first['msg']}.") from None


def _line_of(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """Line of the deepest node on the way to a location, from 1."""
    line = 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if part not in pairs:
                break
            key, node = pairs[part]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def apply(wanted: FileConfig, catalog: Catalog, registry: Registry, base: Path, dry_run: bool = False) -> list[str]:
    """Create what is missing and update what differs; returns one line per change. Relative paths count from `base`."""
    lines: list[str] = []
    for config in wanted.knowledge_bases:
        found = _find(catalog, config.name)
        if found is None:
            lines.append(f"+ knowledge base {config.name}")
            if not dry_run:
                found = catalog.create_knowledge_base(
                    config.name, config.scope, owner=config.owner, client_id=config.client, agency_id=config.agency,
                    description=config.description,
                )  # fmt: skip
        elif (found.scope, found.owner, found.client_id) != _identity(config):
            raise UsageError(
                f"Knowledge base {config.name} is {found.scope} of {found.owner or found.client_id or 'everyone'}; "
                "whose it is cannot be changed by a file. Create one under another name."
            )
        for source in config.sources:
            lines.extend(_apply_source(catalog, registry, config, found, source, base, dry_run))
    return lines


def _identity(config: BaseConfig) -> tuple[str, str, str]:
    client = config.client or ("default" if config.scope == "account" else "")
    return config.scope, config.owner, client


def _find(catalog: Catalog, name: str) -> KnowledgeBase | None:
    try:
        return catalog.knowledge_base(name)
    except NotVisible:
        return None


def _apply_source(
    catalog: Catalog, registry: Registry, config: BaseConfig, found: KnowledgeBase | None, source: SourceConfig, base: Path,
    dry_run: bool,
) -> list[str]:  # fmt: skip
    local = base / source.input
    source_input = str(local) if local.exists() else source.input
    connector = registry.pick(source_input, source.type)
    canonical = connector.canonical(source_input)
    known = {(s.connector, s.input): s for s in catalog.sources(found.kb_id)} if found else {}
    before = known.get((connector.name, canonical))
    schedule = parse_schedule(source.every)
    if before and (before.every_s, before.cron) == schedule and before.options == source.options:
        return []
    if not dry_run and found:
        add_source(
            catalog, registry, found.kb_id, source_input, source_type=source.type, name=source.name, every=source.every,
            options=source.options,
        )  # fmt: skip
    return [f"{'~' if before else '+'} source {source.input} in {config.name}"]
