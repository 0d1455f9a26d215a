"""What the machine is, and results as tables."""

import os
import platform
from pathlib import Path
from typing import Any

import click


def machine() -> dict[str, Any]:
    """Processor, usable cores, memory, Python, load at the start."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def show(results: dict[str, Any]) -> None:
    """Print each part as an aligned list."""
    for part, values in results.items():
        rows = values if isinstance(values, list) else [values] if isinstance(values, dict) else [{part: values}]
        click.secho(part, bold=True)
        for row in rows:
            width = max(len(name) for name in row)
            for name, value in row.items():
                click.echo(f"  {name:<{width}}  {value}")
            click.echo()
