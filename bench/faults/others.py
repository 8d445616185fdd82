"""Measurements without `storagelab run` that are killed and stopped: a capture of a running server, and the fit of a
drive."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from bench.faults.campaigns import Campaign, Log, World
from storagelab.capture import folder
from storagelab.drives.fitting import planned
from storagelab.errors import StoragelabError
from storagelab.verbs.capture import VOLUMES_FILE

_SHORT = (
    "import storagelab.run.measuring as m; m.QUICK = m.QUICK._replace(point_s=0.2, stretch_s=3.0); "
    "from storagelab.cli import main; main()"
)
"""`storagelab` with a fit so short that it can be repeated often."""


class Piece(NamedTuple):
    """A part of a measurement, with a run's attributes that kills need. `content` must not change."""

    sequence: int
    content: object
    status: str = "ok"
    reason: str = ""


class Capturing(Campaign):
    """One whole capture. A killed capture is kept, and the next capture gets another folder. If the killed capture has
    stored nothing, the next capture uses the same folder.
    """

    planned = 1

    def _prepare(self, seed: int) -> None:
        pass

    def start(self) -> subprocess.Popen[str]:
        words = ["capture", "STORAGELAB_BENCH_DSN", "--for", "3s", "-o", str(self._next())]
        return self._started(self._command(*words))

    def _next(self) -> Path:
        return self.home / f"capture-{sum(map(folder.is_capture, self.home.glob('capture-*'))) + 1}"

    def stored(self) -> tuple[Any, ...]:
        whole = [one for one in sorted(self.home.glob("capture-*")) if _whole(one)]
        return tuple(Piece(number, folder.read(one)) for number, one in enumerate(whole))

    def left(self, *, done: bool = True) -> list[str]:
        """Also returns captures that can't be read, and files that don't belong to a capture."""
        found = super().left(done=done)
        for one in self.home.glob("capture-*"):
            own = {folder.MANIFEST, folder.IO, folder.DEVICES, VOLUMES_FILE}
            found += [f"{self}: {file}" for file in one.iterdir() if file.name not in own]
            try:
                folder.read(one)
            except StoragelabError as error:
                found.append(f"{self}: {error}")
        return found

    def log(self) -> Log:
        return _CaptureLog(self, self._next())


def _whole(capture: Path) -> bool:
    try:
        return folder.read(capture).manifest.complete
    except StoragelabError:
        return False


class _CaptureLog(Log):
    def __init__(self, campaign: Campaign, capture: Path) -> None:
        super().__init__(campaign)
        self._capture = capture

    @property
    def begun(self) -> bool:
        return folder.is_capture(self._capture)

    @property
    def stored(self) -> int:
        return int(self.begun and _whole(self._capture))


class Fitting(Campaign):
    """One fit of a drive. Each point, and each of 3 long periods, is stored."""

    planned = len(planned(quick=True, seed=1)) + 3

    def _prepare(self, seed: int) -> None:
        pass

    def start(self) -> subprocess.Popen[str]:
        words = ["drives", "fit", "faults", "--volume", "a", "--quick", "--size", "16MiB"]
        return self._started([sys.executable, "-c", _SHORT, *words])

    @property
    def _environment(self) -> dict[str, str]:
        return {**super()._environment, "XDG_DATA_HOME": str(self.home)}

    @property
    def _folder(self) -> Path:
        return self.home / "storagelab" / "drives"

    def done(self, code: int, said: str) -> bool:
        """Also accepts a fit that was killed after it wrote its profile. It refuses to measure again."""
        return code == 0 or (code == 2 and "was measured before" in said)

    def stored(self) -> tuple[Any, ...]:
        """Returns the periods and points, without the time that they took."""
        if (done := self._folder / "faults.toml").exists():
            measured = tomllib.loads(done.read_text(encoding="utf-8"))["measurement"]
            return tuple(Piece(number, None) for number in range(len(measured["sustained"]) + len(measured["points"])))
        return tuple(Piece(number, None) for number in range(_lines(self._folder / "faults.partial")))

    def left(self, *, done: bool = True) -> list[str]:
        files = self._folder.iterdir() if done else ()
        more = [f"{self}: {file}" for file in files if file.name != "faults.toml"]
        return super().left(done=done) + more

    def log(self) -> Log:
        return _FitLog(self)


def _lines(file: Path) -> int:
    """Returns the number of measurements in the file that stores them."""
    return max(0, file.read_bytes().count(b"\n") - 1) if file.exists() else 0


class _FitLog(Log):
    def __init__(self, campaign: Fitting) -> None:
        super().__init__(campaign)
        self._fit, self._before = campaign, len(campaign.stored())

    @property
    def begun(self) -> bool:
        return bool(list((self._fit.home / "a").iterdir())) or self.stored > 0

    @property
    def stored(self) -> int:
        return len(self._fit.stored()) - self._before


def campaign_of(world: World, home: Path, seed: int) -> Campaign:
    return {"capture": Capturing, "fit": Fitting}.get(world.kind, Campaign)(world, home, seed)
