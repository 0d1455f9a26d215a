"""What of the file system is our own: a home that is fed to itself would grow with every sync."""

from pathlib import Path

from kb_pipeline.settings import Settings


class OwnFolders:
    """The home and the storage root, without the files of the demo."""

    def __init__(self, settings: Settings) -> None:
        self._roots = [root.resolve() for root in dict.fromkeys((settings.kb_home, settings.storage_root))]
        self._inputs = settings.demo_files.resolve()

    def hold(self, path: Path) -> bool:
        """Whether a path is one of them or lies inside, links followed; False where it leads nowhere."""
        try:
            real = path.resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
            return False
        return not real.is_relative_to(self._inputs) and any(real.is_relative_to(root) for root in self._roots)
