"""What a campaign on four workers survives: a bad network, bad workers and bad clients. Each host is a network
namespace.

Every campaign must end with the same results as one made here, and nothing that a worker or client sent may be
executed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import rogue_worker, slow_network
from bench.cluster import digest
from bench.figures import Figure
from bench.slow_network import Network
from bench.small_worlds import SERVER
from storagelab.errors import StoreError
from storagelab.run.store import Store

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "docs" / "how-to" / "cluster"
CLIENT, HEAD, WORKERS = "client", "head", ("w1", "w2", "w3", "w4")
PORT = 8786
BLOCKS, REPETITIONS = 12, 4
RUNS = BLOCKS * 2 * REPETITIONS
SPEC = f"""
name = "faults"
repetitions = {REPETITIONS}
{SERVER}
rows_per_connection = 500_000
[factors]
"drives.ssd.host_ram_bytes" = {[2**33 + n for n in range(BLOCKS)]}
"layout.data_files" = [1, 4]
"""
DELAY_S, LOSS = 0.2, 0.05
AHEAD_S = 86_400
"""How far a worker's clock is wrong."""
_HANG = "10s"
_PATIENCE_S = 1200.0
_KNOCK = """
import sys
from distributed import Client, Security
from distributed.security import Security
security = Security(tls_ca_file=sys.argv[2], tls_client_cert=sys.argv[3] or None, tls_client_key=sys.argv[4] or None)
Client(sys.argv[1], security=security, timeout=8).submit(print, "in").result(timeout=8)
"""


def figures(folder: Path) -> Iterator[Figure]:
    if not slow_network.possible():
        raise SystemExit("bench: hosts of their own need root, and /dev/net/tun")
    with _Hosts(folder) as hosts:
        yield from hosts.figures()


class _Hosts:
    """A scheduler, workers with certificates, and the user's machine, each on its own network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "faults.toml"
        self.spec.write_text(SPEC, encoding="utf-8")
        self.settings = _certified(folder / "settings")
        self.network = Network([CLIENT, HEAD, *WORKERS])
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {"DASK_CONFIG": str(self.settings), "PYTHONPATH": str(ROOT)}

    def __enter__(self) -> _Hosts:
        self.network.__enter__()
        self.address = f"tls://{self.network.address_of[HEAD]}:{PORT}"
        words = ["scheduler", "--protocol", "tls", "--host", self.network.address_of[HEAD], "--port", str(PORT)]
        self._start(HEAD, "distributed.cli.dask_scheduler", *words[1:])
        for name in WORKERS:
            self.add(name)
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.end(name)
        self.network.__exit__()

    def _start(self, host: str, module: str, *words: str, **environment: str) -> None:
        alone = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        self.running[host] = self.network.start(
            host, [sys.executable, "-m", module, *words, *alone], self.folder / f"{host}.log",
            {**self.environment, **environment},
        )  # fmt: skip

    def add(self, name: str, *words: str, **environment: str) -> None:
        """Start a worker, replacing the earlier one of that name, and wait until the scheduler knows it."""
        self.end(name)
        log, known = self.folder / f"{name}.log", f"Register worker addr: tls://{self.network.address_of[name]}:"
        before = self._said_by_scheduler(known)
        place = ["--host", self.network.address_of[name], "--local-directory", str(self.folder / name)]
        alone = ["--nthreads", "1", "--no-nanny", "--memory-limit", "0", *words]
        self._start(name, "distributed.cli.dask_worker", self.address, *place, *alone, **environment)
        began = time.monotonic()
        while self._said_by_scheduler(known) == before:
            if self.running[name].poll() is not None or time.monotonic() - began > _PATIENCE_S:
                raise SystemExit(f"bench: worker {name} did not come up:\n{log.read_text()[-2000:]}")
            time.sleep(0.2)

    def _said_by_scheduler(self, words: str) -> int:
        return (self.folder / f"{HEAD}.log").read_text().count(words)

    def end(self, name: str) -> None:
        if (process := self.running.pop(name, None)) is not None:
            for number in (signal.SIGCONT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)
            process.wait()

    # --- campaigns ---------------------------------------------------------------------------------------------------

    def figures(self) -> Iterator[Figure]:
        here = self.folder / "here"
        words = [sys.executable, "-m", "storagelab", "run", str(self.spec), "--results", str(here)]
        subprocess.run(words, check=True, capture_output=True, cwd=self.folder)
        self.expected = _digest_in(here / "faults")
        yield self._figure("a quiet network")
        self.network.delay_s, self.network.loss = DELAY_S, LOSS
        yield self._figure(f"each packet {1000 * DELAY_S:.0f} ms late, {100 * LOSS:.0f} % lost")
        self.network.delay_s, self.network.loss = 0.0, 0.0
        yield self._figure("a frozen worker", "hangs", self._freeze)
        self.add(WORKERS[-1], **self._of_another_version())
        yield self._figure("a worker of another version", "its storagelab is 0.0.9")
        self.add(WORKERS[-1], **self._with_another_clock())
        yield self._figure(f"a worker whose clock is {AHEAD_S // 3600} h ahead")
        for way in rogue_worker.WAYS:
            bomb = self.folder / "bomb"
            self.add(WORKERS[-1], "--preload", "bench.rogue_worker", ROGUE=way, BOMB=str(bomb))
            said = (
                "; its batch is scheduled again" if way == "huge" else "is refused: it"
            )  # it takes longer than a batch may
            yield self._figure(f"a worker that forges its answers ({way})", said)
            yield Figure(
                f"programs of it that were run here ({way})", int(bomb.exists()), "", "none", not bomb.exists()
            )
        yield from self._knocks()

    def _figure(self, name: str, said: str = "", meanwhile: Callable[[Path], None] | None = None) -> Figure:
        place = self.folder / f"r{time.monotonic_ns()}"
        log = place.with_suffix(".log")
        lost, began = self.network.lost, time.monotonic()
        words = ["run", str(self.spec), "--executor", "dask", "--scheduler", self.address, "--results", str(place)]
        run = self.network.start(
            CLIENT, [sys.executable, "-m", "storagelab", *words, "--time-limit", _HANG], log, self.environment
        )
        if meanwhile is not None:
            threading.Thread(target=meanwhile, args=(place / "faults",), daemon=True).start()
        try:
            run.wait(_PATIENCE_S)
        finally:
            run.kill()
            run.wait()
        took_s, text = time.monotonic() - began, log.read_text()
        same = run.returncode == 0 and _digest_in(place / "faults") == self.expected
        heard = said in text
        line = next((line for line in text.splitlines() if said and said in line), "" if heard else text[-300:])
        remark = f"{took_s:.0f} s, {self.network.lost - lost} packets lost{'; ' if line else ''}{line[:160]}"
        return Figure(
            f"{name}: campaigns of {RUNS} runs that end as one made here", int(same and heard), "", "1 of 1",
            same and heard, remark=remark,
        )  # fmt: skip

    def _freeze(self, results: Path) -> None:
        """Stops the last worker once some runs are stored; it stays stopped until the campaign has ended."""
        while _stored(results) < RUNS // 8:
            time.sleep(0.1)
        self.running[WORKERS[-1]].send_signal(signal.SIGSTOP)

    def _of_another_version(self) -> dict[str, str]:
        place = self.folder / "other"
        shutil.copytree(ROOT / "src", place, ignore=shutil.ignore_patterns("__pycache__"))
        (place / "storagelab" / "version.py").write_text('__version__ = "0.0.9"\n', encoding="utf-8")
        return {"PYTHONPATH": os.pathsep.join([str(place), str(ROOT)])}

    def _with_another_clock(self) -> dict[str, str]:
        library, shift = self.folder / "clock.so", self.folder / "clock"
        source = ROOT / "tests" / "shifted_clock.c"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        shift.write_bytes(struct.pack("q", AHEAD_S * 10**9))
        return {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(shift)}

    # --- clients -----------------------------------------------------------------------------------------------------

    def _knocks(self) -> Iterator[Figure]:
        """Clients without a certificate, or with another authority's, and one with a valid certificate, which is
        accepted.
        """
        others = _certified(self.folder / "others")
        ours, plain = self.settings, self.address.replace("tls", "tcp")
        for name, address, keys, is_let_in in (
            ("without TLS", plain, None, False), ("without a certificate", self.address, None, False),
            ("with another authority's certificate", self.address, others, False),
            ("with a certificate of the cluster", self.address, ours, True),
        ):  # fmt: skip
            pair = [str(keys / file) for file in ("cert.pem", "key.pem")] if keys else ["", ""]
            words = [sys.executable, "-c", _KNOCK, address, str(ours / "ca.pem"), *pair]
            knocking = self.network.start(CLIENT, words, self.folder / "knocks.log", {"DASK_CONFIG": "/nowhere"})
            got_in = knocking.wait(_PATIENCE_S) == 0
            goal = "1: whoever holds one may" if is_let_in else "none"
            yield Figure(f"programs that a client {name} could run", int(got_in), "", goal, got_in == is_let_in)


def _certified(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["sh", str(RECIPES / "certificates.sh"), "30"], cwd=folder, check=True, capture_output=True)
    text = (RECIPES / "tls.yaml").read_text(encoding="utf-8").replace("/etc/dask", str(folder))
    (folder / "tls.yaml").write_text(text, encoding="utf-8")
    return folder


def _digest_in(results: Path) -> str:
    with Store.reading(results) as store:
        runs = store.runs()
    return f"{len(runs)} {digest(runs)}"


def _stored(results: Path) -> int:
    with contextlib.suppress(StoreError), Store.reading(results) as store:
        return len(store.runs(in_detail=0))
    return 0
