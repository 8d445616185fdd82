"""Cautions about comparisons of numbers of data files."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.basis import Evidence, Names, table_in, text_in, volumes_of
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.servers.durability import KNOWN
from storagelab.words.names import listed
from storagelab.words.numbers import count


class AllocationLatches(Caution):
    """Numbers of data files are compared, but with this version of the server, more files gain little."""

    kind, group = "allocation-latches", "drive"
    severity: Severity = "note"
    major: int
    engine: str

    def sentence(self, findings: Findings) -> str:
        note = KNOWN[self.engine].note_on_files
        assert note is not None, self.engine
        return note(self.major)

    def brief(self, findings: Findings) -> str:
        return f"more files gain little on {self.engine} {self.major}"


class FilesOnDisks(Caution):
    """Numbers of data files are compared on simulated disks. Up to `data_files` files share fewer `volumes`.

    The cost of this is known from only one article. It depends on the `order` in which the disks serve their queues.
    """

    kind, group = "files-on-disks", "drive"
    short = "what more files cost on disks rests on one test"
    volumes: Names
    data_files: int
    order: str

    def sentence(self, findings: Findings) -> str:
        return (
            f"Up to {count(self.data_files)} data files share disks here ({listed(self.volumes)}). The cost of this is "
            "known from only one published test: 4 to 16 files on two arrays took 45 to 90 % more time than 2. The "
            "model gives similar times only if the files fill the arrays and the disks serve their queues in order of "
            f'arrival (drives.NAME.order = "fifo"). Here, the order is {self.order}. Simulate both orders.'
        )


def check_allocation_latches(evidence: Evidence) -> Iterator[AllocationLatches]:
    """Gives one caution for each version of a server for which the gain from more data files is known."""
    servers = [table_in(m.environment, "server") for _, _, m in evidence.measurements()]
    for name in (name for name, engine in KNOWN.items() if engine.note_on_files is not None):
        of_engine = [cell.config for cell in evidence.plan.cells if cell.config.target.engine == name]
        if len({config.layout.data_files for config in of_engine}) < 2:
            continue
        majors = {text_in(server, "version").partition(".")[0] for server in servers if server.get("engine") == name}
        for major in sorted(version for version in majors if version.isdigit()):
            yield AllocationLatches(major=int(major), engine=name)


def check_files_on_disks(evidence: Evidence) -> Iterator[FilesOnDisks]:
    """Finds simulated disks on which there are more data files than volumes."""
    if evidence.provenance != "simulated" or len({cell.config.layout.data_files for cell in evidence.plan.cells}) < 2:
        return
    found: dict[str, tuple[tuple[str, ...], int, str]] = {}
    for cell_id, measurements in evidence.by_cell().items():
        config = evidence.plan.cell(cell_id).config
        volumes, files = tuple(dict.fromkeys(config.data_volumes)), config.layout.data_files
        # The orders in which the disks of these volumes serve their queues. Flash drives have no such order.
        measurement = measurements[0]
        drives = table_in(measurement.environment, "drives")
        there = {name: volume for name, volume in volumes_of(measurement) if name in volumes}
        named = {drive for volume in there.values() for drive in text_in(volume, "drives").split(", ")}
        orders = {order for name in drives if name in named and (order := text_in(table_in(drives, name), "order"))}
        if orders and files > len(volumes):
            found[cell_id] = (volumes, files, " and ".join(sorted(orders)))
    if found:
        most = max(found.values(), key=lambda one: one[1])
        yield FilesOnDisks(cells=evidence.named(found), volumes=most[0], data_files=most[1], order=most[2])
