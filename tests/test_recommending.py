"""Recommended moves: a search that can be checked by hand, and refusals."""

import json
import tomllib
from itertools import pairwise

import pytest
from test_predicting import shop, thing

from storagelab.capture import folder
from storagelab.capture.folder import ALL_TABLES, IoRow, Sources
from storagelab.errors import SpecError, StoreError
from storagelab.findings.beside import Beside, Row
from storagelab.model.engines import ENGINES
from storagelab.model.values import Estimate
from storagelab.predicting import prediction, recommending
from storagelab.predicting.prediction import KnownCase, KnownLayout, as_toml, errors_like, spread
from storagelab.predicting.proof import learn
from storagelab.predicting.recommending import recommend
from storagelab.run.engine import engine_in

VOLUMES = """
[volumes.a]
limit = { read_iops = 300, write_iops = 300 }
price = 40
[volumes.fast]
limit = { read_iops = 2000, write_iops = 900 }
price = 110
"""
"""The shop's reads stand at the limit of `a`, and `fast` takes all of them."""


@pytest.fixture
def advised(tmp_path):
    def of(volumes=VOLUMES, capture=None, **how):
        folder.write(tmp_path / "shop", capture or shop())
        (tmp_path / "volumes.toml").write_text(volumes, encoding="utf-8")
        return recommend(tmp_path / "shop", tmp_path / "volumes.toml", **how)

    return of


def moves(one):
    return {move.what: move.to for move in one.moves}


def test_what_stands_at_a_limit_is_moved_and_what_gains_nothing_stays(advised):
    found = advised()
    best = found.proposals[0]
    # The table and its index have all reads: 2000 / 1.5 = 1333 transactions a second instead of 200.
    assert moves(best).items() >= {"orders": "fast", "orders_pkey": "fast"}.items()
    assert best.times_present.value == pytest.approx(2000 / 1.5 / 200, rel=0.01)
    for faster, slower in pairwise(found.proposals):
        assert faster.times_present.value > slower.times_present.value
        assert len(moves(faster)) > len(moves(slower))


def test_without_a_faster_volume_all_stays_as_it_is(advised):
    found = advised(VOLUMES.replace("2000", "20"))
    assert (found.proposals, found.because) == ((), "no other placement is predicted to be faster")


def test_a_gain_below_what_is_worth_it_or_that_may_be_none_is_no_proposal(advised, monkeypatch):
    slightly = VOLUMES.replace("2000", "300")  # the index, a third of the reads, may go there: half as many again
    assert advised(slightly, worth=0.1).proposals
    assert "less than" in advised(slightly, worth=9.0).because
    far_off = KnownCase(engine="postgres", case="", layout=(KnownLayout(name="x", predicted=9, measured=1, moved=1),))
    monkeypatch.setattr(recommending, "known_cases", lambda _: [far_off] * 20)
    found = advised(slightly)
    assert (found.because, found.proposals, found.measurable) == ("no gain is sure", (), (found.unsure,))
    with pytest.raises(SpecError, match="price: is missing"):
        advised(slightly.replace("price = 40", ""), budget=60.0)


def test_what_is_kept_stays_and_an_unknown_name_is_refused(advised):
    assert all("orders" not in moves(one) for one in advised(keep=["orders"]).proposals)
    with pytest.raises(SpecError, match="nothing is named 'order'"):
        advised(keep=["order"])


def test_a_table_called_log_is_not_the_log_and_is_kept_by_its_whole_name(advised):
    objects = (thing("public.log", "table"), thing("public.orders_pkey", "index"), thing("log", "log", 2**24))
    io = (IoRow(0, "public.log", "read", "session", 4000, 4000 * 8192, 0, 52.0), *shop().io[1:])
    capture = folder.Capture(shop(objects=objects).manifest, io, shop().devices)
    assert "public.log" in moves(advised(capture=capture).proposals[0])
    found = advised(capture=capture, keep=["public.log"])
    assert all("public.log" not in moves(one) for one in found.proposals)


def test_figures_that_the_captured_rate_exceeds_by_far_are_no_ground_for_advice(advised):
    found = advised(VOLUMES.replace("read_iops = 300", "read_iops = 100"))
    assert (found.proposals, "times what these volumes explain" in found.because) == ((), True)


@pytest.mark.parametrize(
    ("more", "key", "says"),
    [
        ('path = "rel/pg"', "volumes.fast.path", "not an absolute path"),
        ('captured = ["nix"]', "volumes.fast.captured", "no volume is named 'nix'"),
        ('captured = ["a"]', "volumes.fast.captured", "'a' already belongs to volumes.a"),
    ],
)
def test_volumes_that_contradict_the_capture_are_refused(advised, more, key, says):
    with pytest.raises(SpecError, match=says) as refused:
        advised(f"{VOLUMES}{more}\n")
    assert refused.value.key == key


def test_volumes_without_room_or_beyond_the_budget_are_not_used(advised):
    small = advised(VOLUMES.replace("price = 110", 'price = 110\nsize = "100MiB"'))
    assert all(len(moves(one)) < 3 for one in small.proposals), "table and index have 76 MiB each"
    assert advised(budget=120.0).proposals[0].price == 110, "all of it on fast"
    found = advised(budget=100.0)
    assert (found.proposals, "that fits the volumes and the budget" in found.because) == ((), True)


def test_two_volumes_on_one_device_are_refused(advised, tmp_path):
    volumes = (folder.Volume(name="a", path=str(tmp_path)),)
    capture = folder.Capture(shop(volumes=volumes).manifest, shop().io, shop().devices)
    with pytest.raises(SpecError, match="is on the same device as a") as refused:
        advised(VOLUMES + f'path = "{tmp_path}"\n', capture)
    assert refused.value.key == "volumes.fast"


def test_of_tables_whose_writes_are_not_known_singly_all_move_together(advised):
    io = (*shop().io, IoRow(0, ALL_TABLES, "write", "checkpoint", 100, 819200, 0, 1.0))
    objects = (*shop().manifest.objects, thing(ALL_TABLES, "other"))
    capture = folder.Capture(shop(objects=objects, sources=Sources()).manifest, io, shop().devices)
    found = advised(capture=capture)
    assert "tables" in found.considered
    assert "the writes of single objects are not known" in " ".join(found.doubts)


def test_many_placements_are_searched_in_part_and_a_search_finds_the_best_of_all(advised, monkeypatch):
    names = [f"t{n}" for n in range(7)]
    objects = (*(thing(f"public.{name}", "table") for name in names), thing("log", "log", 2**24))
    io = tuple(IoRow(0, f"public.{name}", "read", "session", 600, 600 * 8192, 0, 9.0) for name in names)
    capture = folder.Capture(shop(objects=objects).manifest, io, shop().devices)
    three = VOLUMES + "[volumes.third]\nlimit = { read_iops = 700, write_iops = 700 }\n"
    part = advised(three, capture)
    assert (part.placements, part.predicted < 1500) == (3**7, True)
    monkeypatch.setattr(recommending, "_ALL_OF", 10_000)
    whole = advised(three, capture)
    assert whole.predicted == whole.placements
    best = [one.proposals[0].times_present.value for one in (part, whole)]
    assert best[0] == pytest.approx(best[1], rel=0.01)


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("postgres", 'ALTER TABLE "public"."orders" SET TABLESPACE "fast";'),
        ("mariadb", "RENAME TABLE `public`.`orders` TO"),
        ("sqlserver", "ALTER DATABASE DB ADD FILEGROUP [fast];"),
    ],
)
def test_each_engine_has_statements_for_an_administrator(advised, engine, says):
    best = advised().proposals[0]
    lines = list(engine_in(ENGINES[engine].folder).moving(best.moves, {"fast": "/mnt/fast"}))
    assert any(says in line for line in lines)
    assert any("Before you begin" in line for line in lines)
    assert any("/mnt/fast" in line for line in lines)


def test_the_command_writes_a_spec_that_measures_what_it_proposes(typed, advised, tmp_path):
    advised()
    (tmp_path / "load.toml").write_text('[target]\nengine = "postgres"\n[workload]\nkind = "pgbench"\n', "utf-8")
    verb = ["recommend", str(tmp_path / "shop"), str(tmp_path / "volumes.toml")]
    written = ["--load", str(tmp_path / "load.toml"), "--spec", str(tmp_path / "proof.toml")]
    code, out, err = typed(*verb, *written)
    assert code == 0, err
    assert "SET TABLESPACE" in out
    spec = tomllib.loads((tmp_path / "proof.toml").read_text("utf-8"))
    levels = {one["label"]: one for one in spec["factors"]["layout"]}
    assert levels["present"]["layout.log"] == "a"
    assert levels["proposal 1"]["layout.objects.orders"] == "fast"
    known = prediction.read(tmp_path / "proof-prediction.json")
    assert [one.name for one in known.layouts] == list(levels)
    code, _, err = typed(*verb, *written)
    assert (code, "exists already" in err) == (2, True)
    replayed = [*verb, "--spec", str(tmp_path / "again.toml")]
    code, _, err = typed(*replayed)
    assert (code, "has no requests in order" in err) == (2, True)
    lines = [
        f"{at} {name} write 4096 512\n" for at, name in enumerate(["log.1", "public.orders", "public.orders_pkey"])
    ]
    (tmp_path / "shop" / "requests.iolog").write_text("".join(["fio version 3 iolog\n", *lines]))
    assert typed(*replayed)[0] == 0
    spec = tomllib.loads((tmp_path / "again.toml").read_text("utf-8"))
    assert (spec["workload"]["trace"], spec["layout"]["data_size_bytes"]) == ("shop/requests.iolog", 2**21 + 2**20)
    assert spec["factors"]["layout"] == list(levels.values())
    assert typed(*verb, *written[:2])[0] == 2, "a load that no spec is written with"
    for kept in ("volumes.toml", "shop/io.csv", "shop/manifest.json"):
        assert "would replace" in typed(*verb, "-o", str(tmp_path / kept))[2]
    assert all(
        "must name a TOML file" in typed(*verb, "--spec", name)[2] for name in ("", ".", "/", "-", "p6.json", "p6")
    )
    assert all("write a number of at least 0" in typed(*verb, "--budget", price)[2] for price in ("cheap", "nan"))
    code, out, _ = typed(*verb, "--format", "json")
    assert json.loads(out)["proposals"][0]["moves"][0]["from"] == "a"


def test_an_interval_is_of_cases_like_the_one_at_hand_and_grows_with_what_moves_and_changes(tmp_path):
    def case(n, engine, moved=1.0, error=0.01):
        layout = KnownLayout(name="x", predicted=1.0, measured=1 + error * n, moved=moved)
        return KnownCase(engine=engine, case=str(n), layout=(layout,))

    few, wide = [case(n, "mariadb") for n in range(1, 5)], [case(n, "postgres", error=0.1) for n in range(1, 30)]
    assert errors_like([*few, *wide], "postgres").of == "known cases of postgres"
    assert len(errors_like([*few, *wide], "mariadb").cases) == 33, "too few of its own: all count"
    assert len(errors_like([*wide, case(30, "postgres", moved=None)], "postgres").cases) == 29, "what moved is unknown"
    errors = errors_like(wide, "postgres")
    little, much, far = (errors.around(1.0, spread(*one)).high for one in ((0.05, 1.0), (0.9, 1.0), (0.9, 2.0)))
    assert little < much < far
    file = tmp_path / "known-predictions.toml"
    assert prediction.own_cases(file) == []
    file.write_text(as_toml(few), "utf-8")
    assert prediction.own_cases(file) == few
    file.write_text("case = 3", "utf-8")
    with pytest.raises(StoreError, match="can't be read as known cases"):
        prediction.own_cases(file)


def test_what_a_proof_measured_is_kept_once_for_the_next_interval(tmp_path, advised):
    said = advised().prediction
    rows = tuple(
        Row(one.name, Estimate(value=1.0 if one.name == "present" else 2.0), one.times_present) for one in said.layouts
    )
    names = {row.name: row.name for row in rows}
    for _ in range(2):
        assert learn(said, Beside("present", rows, ()), names, "proof", tmp_path / "known.toml")
    (case,) = prediction.own_cases(tmp_path / "known.toml")
    assert [(one.measured, one.moved) for one in case.layout] == [
        (2.0, pytest.approx(row.moved)) for row in said.layouts[1:]
    ]
    assert not learn(said, Beside("proposal 1", rows, ()), names, "proof", tmp_path / "other.toml"), "without today's"
