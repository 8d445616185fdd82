"""Cautions about hosts of a campaign that differ in their manifests, and about layouts whose prepared data was copied
in different ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pydantic import Field

from storagelab.findings.basis import Evidence, table_in, text_in, volumes_of
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import Measurement, host_of
from storagelab.model.plan import RESTORED
from storagelab.model.values import Frozen
from storagelab.words.names import hosts_text, listed, noun
from storagelab.words.numbers import bytes_, plural


class UnlikeCopies(Caution):
    """Some layouts start with copies that share blocks with their template, and others with copies that were written in
    full. `ways` has the kinds of copies. `cells` are the cells with the first of these."""

    kind, group = "unlike-copies", "design"
    ways: str

    def sentence(self, findings: Findings) -> str:
        first, _, others = self.ways.partition(" / ")
        elsewhere = others.replace(" / ", " or ")
        return (
            f"Data was {first} from its template{self.where(findings)}, and elsewhere {elsewhere}. The first write to "
            "a block that is shared with a template makes the file system allocate another block. A full copy is in "
            f"new extents. So copies may cause part of a difference of such {noun(findings.layout_factors, 2)}. "
            'Put the volumes on file systems of one kind, or set between_runs.data = "rebuild".'
        )

    def brief(self, findings: Findings) -> str:
        return f"data {self.ways.replace(' / ', ' here, ')} there"


def check_copies(evidence: Evidence) -> Iterator[UnlikeCopies]:
    """Gives one caution if the data of cells, or of runs of one cell, was copied in different ways."""
    cells: dict[str, set[str]] = defaultdict(set)
    for cell_id, _, measurement in evidence.measurements():
        state = text_in(table_in(measurement.environment, "data"), "state")
        if state.startswith(RESTORED):
            cells[state.removeprefix(RESTORED)].add(cell_id)
    if len(cells) > 1:
        ways = sorted(cells, reverse=True)  # "reflinked" before "copied"
        yield UnlikeCopies(cells=evidence.named(cells[ways[0]]), ways=" / ".join(ways))


HOST = (
    "cpu_model", "cpu_count", "memory_bytes", "architecture", "operating_system", "kernel", "hypervisor",
    "cpu_governor",
    "transparent_hugepages",
)  # fmt: skip
SERVER = ("version",)
VOLUME = ("filesystem", "device_model", "device_vendor", "device_driver", "virtual", "in_memory")
QUEUE = ("rotational", "scheduler", "write_cache")
"""The facts of a part of a manifest that should be equal on all hosts. Names and places of devices are not among them,
because they always differ."""
MEMORY_UNIT = 2**30
"""Sizes of memory are rounded to this number of bytes, because firmware reserves different amounts on hosts with equal
memory."""
_FACTS_NAMED = 3
_PLAIN = {"cpu_model": "CPU", "cpu_count": "number of CPUs", "memory_bytes": "memory"}


class Unlike(Frozen):
    """A fact that differs between hosts. `values` has each value with the names of the hosts that have it."""

    fact: str = Field(description='part and name, as in a manifest: "host: kernel", "volume a: device_model"')
    values: tuple[tuple[str, tuple[str, ...]], ...]

    def name(self) -> str:
        part, _, name = self.fact.partition(": ")
        text = _PLAIN.get(name, name.replace("_", " "))
        return text if part == "host" else f"{text} of {part if part != 'server' else 'the server'}"

    def text(self) -> str:
        """The fact with its values, such as "memory (17 GB on db1 and db2, 8.6 GB on db3)"."""
        values = [f"{self._value(value)} on {hosts_text(hosts)}" for value, hosts in self.values]
        return f"{self.name()} ({', '.join(values)})"

    def _value(self, value: str) -> str:
        return bytes_(float(value)) if self.fact.endswith("_bytes") and value else value or "unknown"


class UnlikeHosts(Caution):
    """The hosts of a campaign are not alike. `differs` has each fact that differs, with the hosts that have each
    value."""

    kind, group = "unlike-hosts", "design"
    differs: tuple[Unlike, ...]

    def sentence(self, findings: Findings) -> str:
        """A text with the first few facts in full, and the number of the others."""
        facts = "; ".join(one.text() for one in self.differs[:_FACTS_NAMED])
        left = len(self.differs) - _FACTS_NAMED
        more = f"; and {plural(left, 'more fact')}, which the manifest has" if left > 0 else ""
        return (
            f"The hosts are not alike: {facts}{more}. If a layout wins on all of them, this holds for hosts of several "
            "kinds. If a layout wins only on some of them, this may be the reason."
        )

    def brief(self, findings: Findings) -> str:
        return f"hosts differ in {listed([one.name() for one in self.differs[:_FACTS_NAMED]])}"


def check_hosts(evidence: Evidence) -> Iterator[UnlikeHosts]:
    """Gives one caution for all differences, if runs were made on several hosts."""
    facts_of: dict[str, dict[str, str]] = {}
    for _, run, measurement in evidence.measurements():
        name = host_of(run)
        if name not in facts_of:
            facts_of[name] = dict(_facts(measurement))
    if len(facts_of) < 2 or evidence.provenance != "measured":
        return
    differs = []
    for fact in dict.fromkeys(fact for facts in facts_of.values() for fact in facts):
        hosts_with: dict[str, list[str]] = {}
        for host, facts in sorted(facts_of.items()):
            hosts_with.setdefault(facts.get(fact, ""), []).append(host)
        if len(hosts_with) > 1:
            values = tuple((value, tuple(hosts)) for value, hosts in hosts_with.items())
            differs.append(Unlike(fact=fact, values=values))
    if differs:
        yield UnlikeHosts(differs=tuple(differs))


def _facts(measurement: Measurement) -> Iterator[tuple[str, str]]:
    """The facts that should be equal on all hosts, as pairs (name, value as text)."""
    yield from _of("host", measurement.environment.get("host"), HOST)
    yield from _of("server", measurement.environment.get("server"), SERVER)
    for name, volume in volumes_of(measurement):
        yield from _of(f"volume {name}", volume, VOLUME)
        yield from _of(f"volume {name}", volume.get("queue"), QUEUE)


def _of(part: str, facts: object, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not isinstance(facts, Mapping):
        return
    for name in names:
        value = facts.get(name)
        if name.endswith("_bytes") and isinstance(value, int | float):
            value = round(value / MEMORY_UNIT) * MEMORY_UNIT
        yield f"{part}: {name}", "" if value is None else str(value)
