"""Describes the findings on several hosts: how many agree, which host is odd, what differs between hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.model import Findings, Fleet, HostSummary
from storagelab.report.document import Heading, Table
from storagelab.words.names import hosts_text, noun
from storagelab.words.numbers import change, change_estimate, count, percent, plural, signed_estimate

_SURE = 0.05


def host_line(findings: Findings) -> list[str]:
    """Says on how many hosts the layout in front is the fastest, and which host is odd. [] if there was one host."""
    fleet = findings.fleet
    if fleet is None or len(fleet.counted) < 2:
        return []
    odd = [f"{host.name} is odd ({'; '.join(_oddities(host))})" for host in fleet.counted if _is_odd(host)]
    rounds_known = any(host.level is not None and host.level.low is not None for host in fleet.counted)
    told = odd or (["no host is odd"] if rounds_known else [])
    return [f"{'; '.join(filter(None, (_won(findings, fleet), *told)))}."]


def host_sentences(findings: Findings) -> list[str]:
    """Says to which hosts the verdict applies, and how hosts compare. [] if there was one host."""
    fleet = findings.fleet
    if fleet is None:
        return []
    left = [host.name for host in fleet.hosts if not host.counted]
    few = f"{hosts_text(left)} ran too few of the {noun(findings.factors, 2)} to count in the verdict." * bool(left)
    if len(fleet.counted) < 2:
        alone = fleet.counted[0].name if fleet.counted else "one host"
        return [f"Runs come from {plural(len(fleet.hosts), 'host')}, but the verdict is only for {alone}.", few]
    sentences = [
        f"Runs come from {plural(len(fleet.counted), 'host')} ({hosts_text([host.name for host in fleet.counted])}), "
        "and the verdict is for hosts like these. Each host counts once, and every interval includes the "
        "differences between hosts.",
        few,
        f"{_won(findings, fleet)}.",
        _on_ratios(fleet),
        *(_on_a_host(host) for host in fleet.counted if _is_odd(host)),
    ]
    return [text for text in sentences if text]


def host_table(findings: Findings) -> Table:
    """Returns a table with a row for each host; no rows if there was only one host."""
    headings = [Heading("host", "text"), Heading("rounds"), Heading("runs"),
                Heading("time against the others (joint 95 % CI)", "text"), Heading("fastest there", "text"),
                Heading("remark", "text")]  # fmt: skip
    rows = [
        [
            host.name or "(not known)", count(host.rounds), count(host.runs), signed_estimate(host.level),
            _fastest_text(findings, host), _remark(host),
        ]
        for host in (findings.fleet.hosts if findings.fleet is not None else ())
    ]  # fmt: skip
    return Table(headings, rows)


def _won(findings: Findings, fleet: Fleet) -> str:
    """Returns "The layout in front over all hosts is in front on 2 of 3 (not on db3)", or such a text on loads."""
    fastest = [load.fastest for load in findings.loads] or [findings.fastest]
    hosts = fleet.counted
    agree = [sum(at == own for at, own in zip(host.fastest, fastest, strict=True)) for host in hosts]
    which = f"The {noun(findings.factors)} in front over all hosts is in front"
    if len(fastest) > 1:
        return f"{which} in {sum(agree)} of {len(hosts) * len(fastest)} cases (hosts x loads)"
    against = [host.name for host, agrees in zip(hosts, agree, strict=True) if not agrees]
    but = f" (not on {hosts_text(against)})" if against and len(against) < len(hosts) else ""
    return f"{which} on {len(hosts) - len(against)} of {len(hosts)}{but}"


def _on_ratios(fleet: Fleet) -> str:
    if fleet.scatter is None or fleet.p_value is None:
        return "Each host made one round, so host differences can't be separated from noise; intervals hold both."
    low, high = (percent(end) for end in (fleet.scatter.low, fleet.scatter.high))
    if fleet.p_value < _SURE:
        return (
            f"From host to host, the ratio of two layouts' times differs by {percent(fleet.scatter.value)} (one "
            f"standard deviation, 95 % CI {low} to {high}), more than chance explains."
        )
    return (
        "From host to host, the ratio of two layouts' times may differ by at most "
        f"{high} (one standard deviation, upper end of the 95 % CI). This can't be told from chance."
    )


def _on_a_host(host: HostSummary) -> str:
    takes = change_estimate(host.level)
    level = f"{host.name} is odd: it takes {takes} than the others with every layout. Ratios are not affected."
    ratios = f"{host.name} is odd: layouts compare differently there than on the others. Find out why."
    return " ".join(text for text, is_odd in ((level, host.odd_level), (ratios, host.odd_ratios)) if is_odd)


def _is_odd(host: HostSummary) -> bool:
    return host.odd_level or host.odd_ratios


def _oddities(host: HostSummary) -> Iterator[str]:
    if host.odd_level and host.level is not None:
        yield change(host.level.value, host.level.half_width)
    if host.odd_ratios:
        yield "other ratios"


def _remark(host: HostSummary) -> str:
    if not host.counted:
        return "too few layouts, not counted"
    return f"odd: {'; '.join(_oddities(host))}" if _is_odd(host) else ""


def _fastest_text(findings: Findings, host: HostSummary) -> str:
    known = [cell for cell in host.fastest if cell is not None]
    if len(host.fastest) > 1:
        fastest = [load.fastest for load in findings.loads]
        agree = sum(at == own for at, own in zip(host.fastest, fastest, strict=True))
        return f"that of all hosts under {agree} of {len(fastest)} loads"
    return findings.cell(known[0]).text if known else ""
