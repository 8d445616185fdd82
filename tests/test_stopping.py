"""A signal to stop is never lost, wherever it comes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from storagelab import cli
from storagelab.errors import SpecError
from storagelab.spec import reading
from storagelab.stopping import Interruptible


@pytest.fixture(autouse=True)
def _as_before():
    """Restores the signal handlers, as a stop request makes the process ignore further signals."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it would stay ignored
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, too
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def struck_by(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_stops_what_is_going_on(number):
    with Interruptible() as stopping, pytest.raises(KeyboardInterrupt):
        struck_by(number)
    assert stopping.asked


def finalise_something_deaf() -> None:
    Deaf()
    time.sleep(5)


class Deaf:
    """Python drops what is raised while an object is finalised."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)


def test_a_signal_that_python_drops_amid_a_callback_comes_again():
    with Interruptible(), pytest.raises(KeyboardInterrupt):
        finalise_something_deaf()


def test_a_second_signal_asks_for_patience_and_breaks_nothing_off(capfd):
    with Interruptible():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err.count("started programs are ended") == 2


def breaking(error: Exception):
    """A library that is struck by a signal while it loads, and raises what it raises for any trouble."""

    def load(*_words, **_options):
        try:
            struck_by(signal.SIGTERM)
        except KeyboardInterrupt:
            raise error from None

    return load


@pytest.mark.parametrize("error", [ValueError('Field "kind"'), OSError("no"), SpecError("no")])
def test_what_goes_wrong_because_of_a_signal_is_an_interruption(typed, monkeypatch, error):
    monkeypatch.setattr(reading, "load", breaking(error))
    assert typed("plan", "x.toml") == (130, "", "")


def test_a_fault_of_ours_has_an_exit_code_of_its_own_and_says_how_to_see_where_it_is(typed, monkeypatch, capfd):
    def fail(*_words, **_options):
        raise ValueError("postgresql://secret@host")

    monkeypatch.setattr(reading, "load", fail)
    monkeypatch.setenv(cli.TRACEBACK, "")
    code, out, err = typed("plan", "x.toml")
    assert (code, out, err.count("\n")) == (70, "", 1)
    assert "storagelab: an internal error (ValueError in test_stopping.py, line " in err
    assert ("report it" in err, "secret" in err) == (True, False)
    monkeypatch.setenv(cli.TRACEBACK, "1")
    with pytest.raises(SystemExit, match="70"):
        cli.main()
    assert "Traceback" in capfd.readouterr().err


LOADING = """
import builtins, os, sys
from storagelab import __main__
load = builtins.__import__

def struck(name, *rest):
    if name == "storagelab" and "screen" in (rest[2] or ()):
        os.kill(os.getpid(), int(sys.argv.pop()))
    return load(name, *rest)

builtins.__import__ = struck
__main__.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_comes_while_the_command_is_being_loaded_ends_it_as_one_that_comes_later(number):
    command = [sys.executable, "-c", LOADING, "doctor", str(int(number))]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (130, "", "")
