"""Requirements for servers that already run, for every engine."""

import os
from pathlib import Path

import pytest

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.servers.attached import (
    dropping_leftovers,
    enough_connections,
    owner_of,
    process_age_s,
    require,
)  # fmt: skip

TARGET = TargetConfig(engine="postgres", dsn_env="STORAGELAB_TESTED")


def test_the_first_need_that_is_not_met_is_named_with_its_way_out():
    with pytest.raises(PreflightError) as caught:
        require(TARGET, [(True, "fine", ""), enough_connections(10, 13, "max_connections"), (False, "too late", "")])
    assert caught.value.key == "target.dsn_env"
    assert caught.value.problem == "the server has room for 13 more connections, 14 are needed"
    assert caught.value.hint == "raise max_connections, or lower workload.connections"


def test_a_process_of_another_name_is_not_the_servers():
    own = Path(f"/proc/{os.getpid()}")
    name = (own / "comm").read_text().strip()
    age_s = process_age_s(own, (name,))
    assert 0 <= age_s < 86_400
    assert process_age_s(own, ("postgres",)) is None
    assert process_age_s(Path("/proc/0"), ("postgres",)) is None
    assert owner_of(own) == (os.geteuid(), os.getegid())
    assert owner_of(Path("/proc/0")) is None


def test_leftovers_that_stay_are_told_in_the_servers_words():
    with (
        pytest.raises(PreflightError, match="left on the server: in use") as caught,
        dropping_leftovers(TARGET, OSError, str, "the schema s"),
    ):
        raise OSError("in use")
    assert caught.value.hint == "drop the schema s by hand, as its owner"
