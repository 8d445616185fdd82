"""How server programs are run without root's rights."""

from __future__ import annotations

import os
import subprocess

import pytest

from storagelab.errors import PreflightError
from storagelab.targets import unprivileged as module
from storagelab.targets.unprivileged import Unprivileged, may_enter, unprivileged

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's rights can be given up by root only")


@pytest.fixture
def privileges():
    """Forgets how programs are started, before and after."""
    unprivileged.cache_clear()
    yield
    unprivileged.cache_clear()


def test_an_ordinary_user_starts_programs_as_they_are(monkeypatch, privileges):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert unprivileged() == Unprivileged()


@needs_root
def test_root_starts_programs_in_a_user_namespace_where_files_stay_roots(tmp_path, privileges):
    way = unprivileged()
    assert way.how == "in a user namespace"
    said = subprocess.run([*way.prefix, "sh", "-c", f"id -u; touch {tmp_path}/made"], capture_output=True, text=True)
    assert said.stdout == "1000\n"
    assert (tmp_path / "made").stat().st_uid == 0


@needs_root
def test_where_namespaces_are_barred_programs_run_as_nobody(monkeypatch, privileges):
    works = module._works
    monkeypatch.setattr(module, "_works", lambda prefix: prefix[0] != "unshare" and works(prefix))
    way = unprivileged()
    assert way.how == "as nobody"
    said = subprocess.run([*way.prefix, "id", "-un"], capture_output=True, text=True)
    assert said.stdout == "nobody\n"
    assert way.owner is not None
    assert way.owner[0] != 0


@needs_root
def test_root_without_any_way_is_told_what_to_do(monkeypatch, privileges):
    monkeypatch.setattr(module, "_works", lambda prefix: False)
    with pytest.raises(PreflightError, match="refuse to run as root") as caught:
        unprivileged()
    assert "ordinary user" in caught.value.hint


@needs_root
def test_a_folder_that_only_another_user_may_enter_is_known_to_be_closed(scratch, privileges):
    closed = scratch / "closed"
    (closed / "inside").mkdir(parents=True)
    closed.chmod(0o700)
    os.chown(closed, 12345, 12345)
    assert not may_enter(closed / "inside")
    closed.chmod(0o711)
    assert may_enter(closed / "inside")
