"""Notes for `plan` on experiments that move files between volumes: where such a move separates nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from storagelab.machine import host
from storagelab.model.config import Config
from storagelab.targets import Site


def notes(configs: Sequence[Config], site: Site) -> Iterator[str]:
    """What a comparison of placements can't show on this machine, before hours are spent on it."""
    if len({_placement(config, site) for config in configs}) > 1:
        yield from _on_one_device(configs, site)
    if any(config.target.attached and config.volumes and not config.kind.log_per_database for config in configs):
        yield "the log of a server that runs already stays where it is: only data files are placed on the volumes"


def _placement(config: Config, site: Site) -> tuple[object, ...]:
    """Where a cell's data, log and other parts lie."""
    paths = site.volume_paths(config)
    parts = (*config.data_volumes, f"log {config.log_volume}", *config.placed.items())
    return (*parts, *sorted((name, str(path)) for name, path in paths.items() if name in config.volumes_used))


def _on_one_device(configs: Sequence[Config], site: Site) -> Iterator[str]:
    sharing: dict[str, dict[str, None]] = defaultdict(dict)
    for config in configs:
        for name, path in site.volume_paths(config).items():
            device = host.describe_volume(path)["device"]
            if device and name in config.volumes_used and config.volumes[name].limit is None:
                sharing[str(device)][f"{name} ({path})"] = None
    for device, names in sharing.items():
        if len(names) > 1:
            yield (
                f"volumes {', '.join(names)} are on one device ({device}): a layout that moves files from one to another "
                "separates nothing, so it shows no gain of more drives"
            )
