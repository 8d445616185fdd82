"""The keys of a spec: the defaults documented in the models are those of the simulator."""

import pytest
from pydantic import BaseModel

from storagelab import profiles
from storagelab.model.config import ServerConfig
from storagelab.model.values import LeftOut, LeftToCore
from storagelab.model.volume import CacheConfig, LinkConfig
from storagelab.profiles import constants, default_of


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


@pytest.mark.parametrize("model", [CacheConfig, LinkConfig])
def test_each_key_of_caches_and_links_that_may_be_left_out_has_a_default_in_the_core(model) -> None:
    owners = {
        name: one.owner
        for name, field in model.model_fields.items()
        for one in field.metadata
        if isinstance(one, LeftToCore)
    }
    assert len(owners) >= 2
    assert all(default_of(owner, name) > 0 for name, owner in owners.items())
    (owner,) = set(owners.values())
    assert {one.name for one in constants() if one.owner == owner and one.is_default} == {*owners}
