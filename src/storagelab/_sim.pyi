"""The simulator (crates/sim) and the replay of traces on real files (crates/replay), in Rust, through their bindings
(crates/py).
"""

from collections.abc import Callable

def version() -> str:
    """The version of the extension, the same as the package's."""

def declared() -> str:
    """All parameters of the model as they are declared, as JSON (crates/sim/src/declared.rs): figures of profiles,
    costs, and constants."""

def stream_seed(seed: int, stream: str) -> int:
    """The seed (0 to 2**64 - 1) of the random stream called `stream` under `seed`.

    OverflowError if `seed` is negative or does not fit 64 bits.
    """

def permutation(seed: int, stream: str, n: int) -> list[int]:
    """The numbers 0 to `n` - 1 in a random order: the same for the same seed and stream, on every machine.

    OverflowError if `seed` is outside 0 to 2**64 - 1 or `n` outside 0 to 2**32 - 1.
    """

def replay(paths: list[str], bytes_each: int, flags: int, threads: int, trace: str) -> str:
    """Send a trace, as JSON (crates/sim/src/raw_io/replay.rs), to files of so many bytes that are opened with these
    flags: what was sent, as JSON (crates/replay/src/lib.rs). Offsets count through the files.

    OSError for a request that failed, ValueError for a trace in another form.
    """

class Refused(ValueError):
    """A scenario that can't be run: what is wrong, where, and the way out."""

    place: str
    """Where in the scenario, as in `runs[3].data_files`."""
    what: str

class Block:
    """Runs of one scenario, made one after the other on one set of drives, whose state carries over."""

    def __init__(self, scenario: str, runs_done: int = 0, state: list[bytes] | None = None) -> None:
        """`scenario` is JSON (crates/sim/src/scenario.rs). With `state`, the drives are those after `runs_done` runs.

        Raises Refused.
        """

    @property
    def runs_done(self) -> int: ...
    def run_next(self, progress: Callable[[int], object] | None = None, every_io: bool = False) -> str | None:
        """Make the next run: its outcome as JSON (crates/sim/src/outcome.rs), None when all have been made.

        Other threads continue meanwhile. `progress` receives the rows so far, about ten times a second. An exception
        from it, or a KeyboardInterrupt, stops the run, and the block can't be used any more. RuntimeError for a defect.
        With `every_io` the outcome lists every I/O.
        """

    def state(self) -> list[bytes]:
        """The drives as they are now, in the order of their names."""

class RawBlock:
    """Tests of raw I/O, made one after the other on one set of drives, whose state carries over."""

    def __init__(self, scenario: str, runs_done: int = 0, state: list[bytes] | None = None) -> None:
        """`scenario` is JSON (crates/sim/src/raw_io.rs). With `state`, the drives are those after `runs_done` tests.

        Raises Refused.
        """

    @property
    def runs_done(self) -> int: ...
    def run_next(self, progress: Callable[[int], object] | None = None, every_io: bool = False) -> str | None:
        """Make the next test: its outcome as JSON, None when all have been made. `progress` receives the
        simulated milliseconds so far; everything else is as for `Block.run_next`."""

    def state(self) -> list[bytes]:
        """The drives as they are now, in the order of their names."""

def check(scenario: str) -> None:
    """Say what can't be run, without making anything. Raises Refused."""

def check_raw(scenario: str) -> None:
    """Say which raw I/O can't be done, without doing it. Raises Refused."""

def resolved(scenario: str, raw_io: bool) -> str:
    """The scenario, of runs or of raw I/O, with all its defaults filled in, as JSON. Raises Refused."""
