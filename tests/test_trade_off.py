"""The charts of speed against price and against capacity, with the layouts that no other one beats in both."""

from builders import make_experiment, make_plan, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.model.plan import Experiment, price_of
from storagelab.report.charts import trade_off, wide_specs
from storagelab.report.sections.cells import cells_table
from storagelab.report.sections.contents import brief, opened
from storagelab.report.words.answer import headline
from storagelab.run.stored import judged_as_in
from storagelab.spec.matrix import expand
from storagelab.spec.reading import differences, parse

PRICE, CAPACITY = trade_off.CHARTS
SECONDS = {"a": 100.0, "b": 80.0, "c": 90.0, "d": 60.0}
"""FABRICATED: c is slower than b, and dearer."""
PRICES = {"a": 10, "b": 20, "c": 30, "d": 40}


def story(prices: dict[str, int], **more: list) -> Findings:
    volumes = {name: {"path": name, "price_per_month": price} for name, price in prices.items()}
    base = make_experiment({}).base | {"volumes": volumes}
    factors = {"layout.log": [*prices], **more}
    experiment = make_experiment(factors, 4, base=base)
    experiment = experiment.model_copy(update={"base": base | {"layout": {"data": ["a"]}}})
    plan = make_plan(experiment)
    return analyse(experiment, plan, make_runs(experiment, plan, elapsed=elapsed))


def elapsed(levels, repetition):
    load = 10.0 if levels.get("workload.connections") == 32 else 1.0
    return load * SECONDS[levels["layout.log"]] * (1 + 0.001 * (repetition % 3))


def test_the_front_holds_the_layouts_that_none_beats_in_speed_and_price():
    data = PRICE.rows(story(PRICES), ())
    assert [row["other"] for row in data.rows] == [10, 30, 40, 50]  # the data's volume costs, too
    assert [row["front"] for row in data.rows] == [True, True, False, True]
    assert [str(line).partition(": ")[2] for line in data.lines] == ["log on a", "log on b", "log on d"]
    named = PRICE.finding(data, story(PRICES))
    assert "log on b" in named
    assert "log on c" not in named
    (ladder,) = opened(story(PRICES)).ladders
    assert [rung.name[-1] for rung in ladder.rungs] == ["price 50", "price 30", "price 40", "price 10"]
    table = PRICE.table(data, story(PRICES))
    assert [row[-1] for row in table.rows] == ["yes", "yes", "", "yes"]


def test_each_load_has_its_own_front():
    data = PRICE.rows(story(PRICES, **{"workload.connections": [16, 32]}), ())
    assert data.panels == ["connections = 16", "connections = 32"]
    for panel in data.panels:
        rows = [row for row in data.rows if row["panel"] == panel]
        assert [row["front"] for row in rows] == [True, True, False, True]


def test_of_layouts_that_may_be_the_fastest_the_lowest_price_is_the_default_if_each_has_one(monkeypatch):
    monkeypatch.setattr("test_trade_off.SECONDS", dict.fromkeys(SECONDS, 80.0))
    findings = story({"a": 40, "b": 30, "c": 20, "d": 30}, **{"layout.log": ["b", "c", "d"]})
    told = headline(findings)
    assert "Default: log on c, price 60 a month (of those within 1 % of the fastest: lowest price)." in told
    unpriced = [cell.model_copy(update={"price_per_month": None}) for cell in findings.cells[-1:]]
    partly = findings.model_copy(update={"cells": (*findings.cells[:-1], *unpriced)})
    assert "lowest price" not in headline(partly)


def test_layouts_of_one_price_or_of_unknown_capacity_have_no_chart():
    findings = story(dict.fromkeys(PRICES, 0))
    assert PRICE.rows(findings, ()).rows == []
    assert CAPACITY.rows(findings, ()).rows == []
    assert not {"price-against-speed", "capacity-against-speed"} & wide_specs(findings, ()).keys()


def test_more_capacity_at_the_same_time_is_on_the_front():
    findings = story(PRICES)
    sizes = dict(zip("abcd", (300e9, 300e9, 210e9, 150e9), strict=True))
    cells = tuple(
        cell.model_copy(update={"capacity_bytes": sizes[str(cell.levels["layout.log"])]}) for cell in findings.cells
    )
    data = CAPACITY.rows(findings.model_copy(update={"cells": cells}), ())
    assert {str(row["layout"]).partition("log on ")[2]: row["front"] for row in data.rows} == {
        "d": True, "c": False, "b": True, "a": False,
    }  # fmt: skip


SPEC = """
[target]
engine = "postgres"
[volumes.a]
path = "a"
[volumes.b]
path = "b"
[factors]
place = [{{ label = "one", "layout.data" = ["a"]{0} }}, {{ label = "two", "layout.data" = ["b"] }}]
"""


def spec(of_volume: str = "", of_level: str = "") -> Experiment:
    return parse(SPEC.format(of_level).replace('path = "b"', f'path = "b"\n{of_volume}'), "x.toml")


def test_a_price_may_be_added_while_results_are_kept():
    bare, priced = spec(), spec("price_per_month = 12.5", ', "volumes.a.price_per_month" = 7')
    assert bare.sha256 == priced.sha256
    assert differences(bare.canonical, priced.canonical) == []
    prices = [cell.config.price_per_month for cell in expand(judged_as_in(bare, priced)).cells]
    assert prices == [7, 12.5]
    assert [cell.config.price_per_month for cell in expand(bare).cells] == [None, None]


def test_what_levels_cost_may_be_given_and_changed_while_results_are_kept():
    bare, prices = spec(), "[labels.price_per_month]\nplace = {{ one = {}, two = 9 }}\n"
    for price in (5, 6.5):
        priced = parse(SPEC.format("") + prices.format(price), "x.toml")
        assert priced.sha256 == bare.sha256
        judged = judged_as_in(bare, priced)
        assert [price_of(cell, judged.factors) for cell in expand(judged).cells] == [price, 9]
    assert [price_of(cell, bare.factors) for cell in expand(bare).cells] == [None, None]


def test_who_decides_is_told_what_is_gained_the_price_and_what_is_not_known():
    findings = story(PRICES)
    told = " ".join(brief(findings, ()).head)
    assert "the slowest (log on a) takes 66.7 % more time" in told
    assert "the nearest that is surely slower (log on b) takes 33.3 % more time" in told
    assert "Use log on d. It costs 50 a month." in told
    cheaper = "the fastest cheaper one (log on b) costs 30 and takes 33.3 % more time"
    assert f"The layout to use (log on d) costs 50 a month; {cheaper}" in told
    cheapest = " ".join(brief(story({"a": 9, "b": 30, "c": 20, "d": 0}), ()).head)
    assert "; none costs less; the fastest dearer one (log on b) costs 39 and takes 33.3 % more time" in cheapest
    assert "Not known" not in told
    table = cells_table(findings).table
    place = [heading.text for heading in table.headings].index("price a month")
    assert [row[place] for row in table.rows] == ["50", "30", "40", "10"]
    unpriced = tuple(cell.model_copy(update={"price_per_month": None}) for cell in findings.cells)
    assert "Not known: prices" in brief(findings.model_copy(update={"cells": unpriced}), ()).head[-1]
