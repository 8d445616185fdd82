"""The places of data files, round robin over volumes: in folders that storagelab makes, or on the server's machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storagelab.model.config import Config
from storagelab.targets.folders import Folders
from storagelab.targets.unprivileged import make_folder


class Places:
    """The places of one cell's data files, numbered from 1.

    `folders` is None where the server chooses the place of its files. `folder_each`: on a volume of another machine each
    data file has a folder of its own below the volume's, made by the operator; otherwise they share the volume's.
    """

    def __init__(
        self, config: Config, folders: Folders | Mapping[str, Path] | None, *, folder_each: bool = False
    ) -> None:
        self.config, self._folders, self._folder_each = config, folders, folder_each

    @property
    def on_volumes(self) -> bool:
        return self._folders is not None and bool(self.config.data_volumes)

    @property
    def data_files(self) -> range:
        return range(1, self.config.layout.data_files + 1)

    def volume_of(self, number: int) -> str:
        volume = self.config.volume_of_data_file(number - 1)
        assert volume is not None
        return volume

    def is_remote(self, number: int) -> bool:
        return bool(self.config.data_volumes) and self.config.volumes[self.volume_of(number)].remote

    def folder_of(self, number: int) -> Path:
        """The folder for a data file, as the server names it."""
        volume = self.volume_of(number)
        if self.config.volumes[volume].remote:
            folder = Path(self.config.volumes[volume].path or "")
            return folder / remote_name(number) if self._folder_each else folder
        assert self._folders is not None
        return self._folders[volume] / f"data-file-{number:04d}"

    def asked(self, number: int) -> str:
        """The folders in the form that `steps.check_places` takes."""
        return str(self.folder_of(number)) if self.on_volumes else "default"

    def make_folders(self, owner: tuple[int, int] | None = None) -> None:
        """One folder per data file on this machine; `owner` (uid, gid) is an attached server's account."""
        for number in self.data_files if self.on_volumes else ():
            if not self.is_remote(number):
                make_folder(self.folder_of(number), owner)


def remote_name(number: int) -> str:
    """The name of a data file's folder that the operator makes; it marks the folder as storagelab's."""
    return f"storagelab-data-file-{number:04d}"
