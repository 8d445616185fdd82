"""Sharing a campaign: no name leaves, and only what may be compared is put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import make_experiment, make_plan, make_runs
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import storagelab
from storagelab.errors import StoreError
from storagelab.findings.analysis import analyse
from storagelab.gallery import pages
from storagelab.gallery.entry import Entry, why_not_compared
from storagelab.gallery.sharing import entry_of, names_in, refuse_names
from storagelab.model.plan import Experiment, Level
from storagelab.run.store import Store
from storagelab.spec import matrix, reading

GALLERY = Path(__file__).parent.parent / "docs" / "gallery"
QUICKSTART = Path(storagelab.__file__).parent / "experiments" / "quickstart.toml"
MARK = "zq7"
"""Everything that a user named or typed holds it; it is in no word of storagelab's own."""


def marked(value: Any, secret: str) -> Any:
    """Every text in an environment, with what a user might have put there."""
    match value:
        case dict():
            return {name: marked(inside, secret) for name, inside in value.items()} | {f"{MARK}{secret}": secret}
        case list():
            return [marked(inside, secret) for inside in value]
        case str():
            return f"{value}/{MARK}{secret}"
    return value


def campaign(secret: str, version: str = "18.4") -> tuple[Any, ...]:
    """A measured campaign, FABRICATED, whose owner put names everywhere."""
    text = f"{MARK}{secret}"
    made = make_experiment({"layout.data_files": [1, 4], "layout.log": ["a", "b"]}, repetitions=5, question=text)
    named = made.factors[1].model_copy(
        update={
            "levels": tuple(
                Level(value=f"{text} {n}", sets=level.sets) for n, level in enumerate(made.factors[1].levels)
            )
        }
    )
    experiment = made.model_copy(
        update={
            "factors": (made.factors[0], named),
            "source": f"/srv/{text}/x.toml",
            "text": text,
            "name": f"c-{MARK}",
        }
    )
    plan = make_plan(experiment)
    runs = make_runs(
        experiment, plan, elapsed=lambda levels, repetition: 10.0 + levels["layout.data_files"] + repetition / 10
    )
    spoiled = []
    for run in runs:
        environment = marked(run.measurement.environment, secret)
        environment["server"] = {
            **environment.get("server", {}),
            "version": version,
            "user": text,
            "dsn": f"x://{text}@{text}/d",
        }
        measurement = run.measurement.model_copy(update={"environment": environment})
        spoiled.append(run.model_copy(update={"measurement": measurement}))
    return experiment, plan, tuple(spoiled), analyse(experiment, plan, spoiled)


@given(secret=st.text(min_size=1, max_size=12))
@settings(max_examples=10, deadline=None)
def test_no_name_path_or_text_of_a_user_is_in_what_is_shared(secret):
    entry = entry_of(*campaign(secret))
    shared = pages.as_json(entry) + pages.page([entry]) + pages.folder_name(entry)
    assert MARK not in shared
    assert Entry.model_validate_json(pages.as_json(entry)) == entry


def test_ratios_are_left_and_levels_lose_their_names():
    entry = entry_of(*campaign("x"))
    assert [factor.model_dump() for factor in entry.factors] == [
        {"name": "layout.data_files", "levels": (1, 4)}, {"name": "layout.log", "levels": ("volume 1", "volume 2")},
    ]  # fmt: skip
    slower = [one for one in entry.layouts if one.verdict == "slower"]
    assert {one.levels["layout.data_files"] for one in slower} == {4}
    assert all(one.low is not None and one.ratio is not None and 1 < one.low < one.ratio for one in slower)


def test_the_name_of_a_users_table_is_left_out_of_the_factor_that_places_it():
    experiment = make_experiment({f"layout.objects.{MARK}": ["a", "b"]}, repetitions=5)
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan)
    [factor] = entry_of(experiment, plan, runs, analyse(experiment, plan, runs)).factors
    assert factor.model_dump() == {"name": "layout.objects", "levels": ("volume 1", "volume 2")}


def test_nothing_is_written_if_a_name_is_left():
    with pytest.raises(StoreError, match="which may be a name"):
        refuse_names('{"level": "db1.example"}', names_in(Experiment(name="x", source="db1.example"), ()))


def entry(**changes: Any) -> Entry:
    whole = entry_of(*campaign("x")).model_dump(by_alias=True)
    return Entry.model_validate({**whole, **changes})


DRIVE = {"kind": "NVMe", "made_of_file": False, "filesystem": "ext4", "limit": "none"}


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, []),
        ({"version": "18.9", "repetitions": 9, "month": "2027-01"}, []),
        ({"version": "17.4"}, ["the family of versions"]),
        ({"engine": "mariadb", "version": "11.8.2"}, ["the engine", "the family of versions"]),
        ({"load": {"kind": "pgbench"}}, ["the load"]),
        ({"settings": {"shared_buffers": "8GB"}}, ["the settings"]),
        ({"drive": DRIVE}, ["the kind of drive, its file system or its limit"]),
        ({"factors": []}, ["what varies"]),
    ],
)
def test_only_campaigns_of_one_kind_are_compared(changes, reasons):
    one, other = entry(), entry(**changes)
    assert why_not_compared(one, other) == reasons
    assert len(pages.groups([one, other])) == (1 if not reasons else 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "postgres\nroot"}, {"load": {"kind": "/home/me"}}, {"host": {"name": "db1"}}, {"layouts": []},
        {"drive": {**DRIVE, "limit": "<script>"}}, {"factors": [{"name": "x y", "levels": []}]}, {"owner": "me"},
    ],
)  # fmt: skip
def test_a_pull_request_can_bring_nothing_else(changes):
    with pytest.raises(ValidationError):
        entry(**changes)


def test_a_campaign_is_shown_before_it_is_written_and_only_if_somebody_agrees(tmp_path, typed):
    experiment = reading.parse(QUICKSTART.read_text("utf-8"), "quickstart.toml")
    runs = make_runs(experiment, matrix.expand(experiment), elapsed=lambda levels, repetition: 10.0 + repetition / 10)
    with Store.writing(tmp_path / "results" / experiment.name, experiment) as store:
        store.append(*runs)
    asked = ["share", experiment.name, "--results", str(tmp_path / "results"), "-o", str(tmp_path / "gallery")]
    code, out, err = typed(*asked)
    assert (code, (tmp_path / "gallery").exists()) == (2, False)
    assert "nobody was there to agree" in err
    shown = json.loads(out)
    code, out, err = typed(*asked, "--yes")
    assert code == 0
    (written,) = pages.entries(tmp_path / "gallery")
    assert json.loads(pages.as_json(written)) == shown
    (file,) = (tmp_path / "gallery").glob("*/*.json")
    file.write_text(file.read_text().replace('"cpus": ', '"cpus": 1'))
    with pytest.raises(StoreError, match="was changed after it was shared"):
        pages.entries(tmp_path / "gallery")


def test_the_gallery_of_the_documentation_is_whole():
    assert len(pages.entries(GALLERY)) >= 2
