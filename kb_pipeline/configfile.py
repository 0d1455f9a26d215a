"""kb.yaml: knowledge bases and their sources in one reviewed file. Unknown keys are errors with their line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import NotVisible, UsageError
from kb_pipeline.kb_settings import checked
from kb_pipeline.settings import Settings
from kb_pipeline.sources import add_source, check_options, parse_schedule
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
    settings: dict[str, str | int] | None = None
    sources: list[SourceConfig] = Field(default_factory=list)


class FileConfig(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid")
    knowledge_bases: list[BaseConfig]


def load(path: Path) -> FileConfig:
    """Read and check a file.

    Raises: UsageError: not YAML, or a key or value that is not understood, with file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.") from None
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


@dataclass(frozen=True, slots=True)
class Applier:
    """Makes a home as a file says.

    Attributes:
        base: folder that relative paths in the file count from.
        dry_run: say what would change, change nothing.
    """

    catalog: Catalog
    registry: Registry
    settings: Settings
    base: Path
    dry_run: bool = False

    def apply(self, wanted: FileConfig) -> list[str]:
        """Create what is missing and update what differs; one line per change.

        Raises: UsageError: an input is not understood, or a knowledge base would change hands.
        """
        lines: list[str] = []
        own = {config.name: self._own(config) for config in wanted.knowledge_bases}  # before anything is made
        for config in wanted.knowledge_bases:
            found = self._find(config)
            if found is None:
                lines.append(f"+ knowledge base {config.name}")
                found = None if self.dry_run else self._create(config)
            lines.extend(self._settings(config, found, own[config.name]))
            for source in config.sources:
                lines.extend(self._source(config, found, source))
        return lines

    def unnamed(self, wanted: FileConfig) -> list[str]:
        """Sources that stand in the knowledge bases of a file and not in it: a file takes nothing away."""
        lines: list[str] = []
        for config in wanted.knowledge_bases:
            found = self._find(config)
            named = [self._connector(source) for source in config.sources]
            for source in self.catalog.sources(found.kb_id) if found else ():
                if (source.connector, source.input) not in named:
                    removal = f"kb remove {source.kb_id} {source.source_id}"
                    lines.append(f"? source {source.input} in {config.name} is not in the file; `{removal}` removes it")
        return lines

    def _find(self, config: BaseConfig) -> KnowledgeBase | None:
        try:
            found = self.catalog.knowledge_base(config.name)
        except NotVisible:
            return None
        client = config.client or ("default" if config.scope == "account" else "")
        if (found.scope, found.owner, found.client_id) != (config.scope, config.owner, client):
            raise UsageError(
                f"Knowledge base {config.name} is {found.scope} of {found.owner or found.client_id or 'everyone'}; "
                "whose it is cannot be changed by a file. Create one under another name."
            )
        return found

    def _create(self, config: BaseConfig) -> KnowledgeBase:
        return self.catalog.create_knowledge_base(
            config.name,
            config.scope,
            owner=config.owner,
            client_id=config.client,
            agency_id=config.agency,
            description=config.description,
        )

    def _own(self, config: BaseConfig) -> dict[str, Any] | None:
        """What a base sets for itself; None where the file does not say."""
        try:
            return None if config.settings is None else checked(self.settings, config.settings)
        except UsageError as error:
            raise UsageError(f"Settings of knowledge base {config.name}: {error}") from None

    def _settings(self, config: BaseConfig, found: KnowledgeBase | None, own: dict[str, Any] | None) -> list[str]:
        if own is None or own == (found.settings if found else {}):
            return []
        if found and not self.dry_run:
            self.catalog.set_settings(found.kb_id, own)
        shown = ", ".join(f"{name.upper()}={value}" for name, value in own.items()) or "those of the home"
        return [f"~ settings of {config.name}: {shown}"]

    def _connector(self, source: SourceConfig) -> tuple[str, str]:
        """(connector, input as the catalog has it) of a source."""
        source_input = self._input(source)
        connector = self.registry.pick(source_input, source.type)
        return connector.name, connector.canonical(source_input)

    def _input(self, source: SourceConfig) -> str:
        """The input, a path in the file's folder made absolute."""
        local = self.base / source.input
        return str(local) if local.exists() else source.input

    def _source(self, config: BaseConfig, found: KnowledgeBase | None, source: SourceConfig) -> list[str]:
        known = {(s.connector, s.input): s for s in self.catalog.sources(found.kb_id)} if found else {}
        before = known.get(self._connector(source))
        schedule = parse_schedule(source.every)
        check_options(source.options)
        if before and (before.every_s, before.cron) == schedule and before.options == source.options:
            return []
        if found and not self.dry_run:
            add_source(
                self.catalog,
                self.registry,
                found.kb_id,
                self._input(source),
                source_type=source.type,
                name=source.name,
                every=source.every,
                options=source.options,
                is_whole=True,
            )
        return [f"{'~' if before else '+'} source {source.input} in {config.name}"]
