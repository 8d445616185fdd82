"""The part of a generator's load that all engines share: the programs that make and fill its tables, and that send its
transactions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from storagelab.errors import RunFailed
from storagelab.loads import sysbench
from storagelab.loads.generator import Clients, Program
from storagelab.loads.own_files import own_script
from storagelab.machine.rights import make_folder
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.loads.sysbench import Sysbench
from storagelab.model.objects import TEMPORARY, Object
from storagelab.servers.interfaces import C
from storagelab.servers.places import Places
from storagelab.volumes.folders import Site

L = TypeVar("L", bound=GeneratedLoad)


class GeneratedTables(Places, Generic[C, L]):
    """A base class for the layouts of engines. A subclass for each kind of load adds the code that fills the tables,
    and the program.
    """

    unit_bytes: ClassVar[int] = 0
    """The size on disk, in bytes, of one unit of the load's data. Measured and rounded up."""
    index_share: ClassVar[float] = 0.2
    """The share of these bytes that belongs to indexes. Measured and rounded up."""
    filled_in_place: ClassVar[bool] = False
    """Whether tables are made in the places of the layout. If not, they are moved there after they have been filled."""
    temporary_beside: ClassVar[bool] = True
    """Whether temporary files are in the same folder as other placed objects. If not, the server makes their folder."""

    @property
    def load(self) -> L:
        return cast("L", self.config.workload)

    @property
    def session_options(self) -> dict[str, str]:
        """Settings of the sessions that make and use the tables."""
        return {}

    @property
    def default_spread(self) -> tuple[str, ...]:
        """The tables that are spread over data files if the spec does not name any."""
        return ()

    @property
    def spread(self) -> tuple[str, ...]:
        """The tables that are spread over data files."""
        given = self.config.layout.spread
        return given if given is not None else self.default_spread

    @property
    def known_objects(self) -> list[Object] | None:
        """The tables and indexes that the load makes, with their sizes. The value is None if the user's own files make
        them.
        """
        return None

    @property
    def data_bytes(self) -> float:
        """The total size on disk, in bytes, of the load's tables and indexes. 0 if the user's own files make them."""
        return (self.load.data.units or 0) * self.unit_bytes

    def _folder_on(self, volume: str) -> Path:
        """Returns the folder of a volume that holds placed objects other than data files."""
        assert self._folders is not None
        return self._folders[volume] / f"on-{volume}"

    @property
    def _volumes_of_objects(self) -> list[str]:
        placed = self.config.placed.items() if self.on_volumes else ()
        return sorted({volume for what, volume in placed if what != TEMPORARY or self.temporary_beside})

    def make_folders(self, owner: tuple[int, int] | None = None) -> None:
        super().make_folders(owner)
        for volume in self._volumes_of_objects:
            make_folder(self._folder_on(volume), owner)

    @abstractmethod
    def fill(self, own: C, clients: Clients, site: Site) -> None:
        """Makes and fills the tables. Raises RunFailed with the message of the program that failed."""

    @abstractmethod
    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        """Returns the generator that works on the tables."""

    @abstractmethod
    def places(self, clients: Clients) -> Iterator[tuple[str, str]]:
        """Yields each program of the load that logs in. With it, yields the schema to which names without a schema
        refer, or "" if there is none. Raises RunFailed with the message of a program that can't log in.
        """

    def refuse_elsewhere(self, clients: Clients, wanted: str) -> None:
        """Raises RunFailed unless names without a schema refer to `wanted`. Otherwise the load might use tables of the
        same names in another schema."""
        for program, found in self.places(clients):
            if found != wanted:
                raise RunFailed(
                    f"{program} would work in {found or 'no schema'}, not in storagelab's own: the server, such as by "
                    "init_connect, or something before it leads its sessions elsewhere"
                )

    @abstractmethod
    def check(self, site: Site, beside: Path | None) -> str:
        """Checks that all required programs exist, and describes the generator. The server's own programs are in the
        folder `beside`. Raises PreflightError.
        """

    @abstractmethod
    def finish(self, own: C) -> None:
        """Spreads the filled tables over the data files."""

    def make(self, own: C, reach: Any) -> None:
        self.create(own)
        self.fill(own, reach.clients({**reach.for_set_up, **self.session_options}), reach.site)


class SysbenchTables(GeneratedTables[C, Sysbench]):
    """sysbench's tables. sysbench makes them, and then each is spread over the data files."""

    @property
    def default_spread(self) -> tuple[str, ...]:
        return self.load.table_names

    def fill(self, own: C, clients: Clients, site: Site) -> None:
        command = sysbench.initialise(clients.options["sysbench"], self.load)
        command, inputs = sysbench.beginning_with(clients.first, command)
        output = clients.in_folder(command, {**sysbench.inputs_of_sysbench(own_script(self.load, site)), **inputs})
        if sysbench.failed(output):
            words = sysbench.words(output.stdout + output.stderr, self.load.script)
            raise RunFailed(f"sysbench can't make its tables: {words}")
        self.finish(own)

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        return sysbench.by_sysbench(clients, self.load, own_script(self.load, site), seed)

    def check(self, site: Site, beside: Path | None) -> str:
        own_script(self.load, site)
        return sysbench.version()
