"""Waits until a person has prepared volumes: asks at a terminal, and otherwise ends and is told by the next call."""

from __future__ import annotations

import sys

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.model.plan import Experiment
from storagelab.targets.kept_volumes import PreparationAwaited
from storagelab.words.names import listed

_YES = ("yes", "y", "done")


class Hands:
    """The person who prepares volumes. `said` = the volumes that `--prepared` names; that counts once, for the block
    for which the call before this one waited.
    """

    def __init__(self, experiment: Experiment, said: tuple[str, ...]) -> None:
        self._source, self._said = experiment.source, said

    def wait(self, waits: PreparationAwaited, *, made: int, blocks: int) -> None:
        """Returns when it was done and checked. Raises PreparationAwaited with what to do if nobody can be asked; then
        the next call goes on. `made` = the runs that this call has made since it last waited.
        """
        said, self._said = self._said, ()
        if said and not made:
            self._refuse_others(waits, said)
            self._confirm(waits)
            return
        where = f"block {waits.block + 1} of {blocks}"
        screen.say(f"{where}: {'; '.join(waits.asked)}")
        if not sys.stdin.isatty():
            raise self._ended(waits)
        while True:
            screen.say("Type yes when it is done. Ctrl-C ends this run, and the next one goes on here.")
            answer = sys.stdin.readline()
            if not answer:
                raise self._ended(waits)
            if answer.strip().lower() not in _YES:
                continue
            try:
                self._confirm(waits)
            except PreflightError as error:
                screen.say(str(error))
                continue
            return

    def _confirm(self, waits: PreparationAwaited) -> None:
        try:
            waits.confirm()
        except PreflightError as error:
            raise error.of(self._source) from error

    def _ended(self, waits: PreparationAwaited) -> PreparationAwaited:
        options = " ".join(f"--prepared {name}" for name in waits.names)
        return waits.with_words(f"when it is done, with the same options: storagelab run {self._source} {options}")

    def _refuse_others(self, waits: PreparationAwaited, said: tuple[str, ...]) -> None:
        if set(said) != set(waits.names):
            raise PreflightError(
                f"--prepared names {listed(list(said))}, and the next block needs {listed(waits.names)}",
                file=self._source,
                hint="name each of these, once it is prepared",
            )  # fmt: skip
