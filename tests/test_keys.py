"""The keys of a spec: the defaults documented in the models are those of the simulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from storagelab import profiles
from storagelab.model.config import CacheConfig, LinkConfig, ServerConfig
from storagelab.model.values import LeftOut

SIMULATOR = Path(__file__).parent.parent / "crates" / "sim" / "src"


def said_of(model: type[BaseModel]) -> dict[str, str]:
    """Key -> its documented default."""
    return {
        name: one.words
        for name, field in model.model_fields.items()
        for one in field.metadata
        if isinstance(one, LeftOut)
    }


def test_the_models_name_the_switches_of_the_servers_profile() -> None:
    switches = profiles.server().switches
    said = said_of(ServerConfig)
    assert len(said) >= 7
    assert said == {name: str(switches[name].value).lower() for name in said}


@pytest.mark.parametrize(("model", "prefix"), [(CacheConfig, ""), (LinkConfig, "link_")])
def test_the_models_name_the_simulators_own_caches_and_links(model, prefix) -> None:
    source = (SIMULATOR / "volume" / "config.rs").read_text("utf-8")
    own = {name: int(value) for name, value in re.findall(r"const fn (\w+)\(\) -> \w+ \{\s*([\d_]+)\s*\}", source)}
    said = {name: int(words.replace(",", "")) for name, words in said_of(model).items() if words[0].isdigit()}
    assert len(said) >= 2
    assert said == {name: own[f"{prefix}{name}"] for name in said}
