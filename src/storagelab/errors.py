"""The errors that storagelab reports.

StoragelabError            exit code 2 unless it says otherwise
├── SpecError              the spec: file, key path, what is allowed
├── PreflightError         this machine or server can't run the spec: what, where, the way out
├── StoreError             the results folder: in use, of another spec, of a newer version
└── RunFailed              one run broke; it is stored as `failed` and the next runs go on
    └── DataRefused        the user's own data or names can't be used, so every run would fail: the campaign stops
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

_MOST_SHOWN = 12
"""Errors of one spec."""


class StoragelabError(Exception):
    """An error that the user can act on. `str()` of it is the whole message: printed once, never with a traceback."""

    exit_code = 2


class _Placed(StoragelabError):
    """An error that reads `FILE: KEY: PROBLEM`, with the way out on a line of its own."""

    def __init__(self, problem: str, *, file: Path | str | None = None, key: str | None = None, hint: str = "") -> None:
        self.problem, self.file, self.key, self.hint = problem, file, key, hint
        where = "".join(f"{part}: " for part in (file, key) if part)
        super().__init__(where + problem + (f"\n  {hint}" if hint else ""))


class SpecError(_Placed):
    """A spec that can't be used. `others` are further errors of the same spec."""

    def __init__(
        self, problem: str, *, file: Path | str | None = None, key: str | None = None, hint: str = "",
        others: Sequence[SpecError] = (),
    ) -> None:  # fmt: skip
        super().__init__(problem, file=file, key=key, hint=hint)
        self.others = tuple(others)

    def __str__(self) -> str:
        shown, left = self.others[: _MOST_SHOWN - 1], len(self.others) - (_MOST_SHOWN - 1)
        return "\n".join([super().__str__(), *map(str, shown), *([f"and {left} more"] if left > 0 else [])])

    def at(self, file: str, where: str = "") -> SpecError:
        """The same errors, with the spec's file, and with `where` after each problem."""
        others = [one.at(file, where) for one in self.others]
        return SpecError(self.problem + where, file=file, key=self.key, hint=self.hint, others=others)


@contextlib.contextmanager
def noting(errors: list[SpecError]) -> Iterator[None]:
    """Adds an error that ends the context to `errors`, and goes on after it."""
    try:
        yield
    except SpecError as error:
        errors += [error, *error.others]


def refuse(errors: Sequence[SpecError]) -> None:
    """Raises all these errors as one, if there are any. Of several about one key, only the first is told."""
    of_keys = dict[str, SpecError]()
    for error in errors:
        of_keys.setdefault(error.key or error.problem, error)
    alone = [SpecError(one.problem, file=one.file, key=one.key, hint=one.hint) for one in of_keys.values()]
    if alone:
        alone[0].others = tuple(alone[1:])
        raise alone[0]


class PreflightError(_Placed):
    """The spec is sound but can't run here. Raised before anything is changed."""

    def of(self, file: Path | str) -> PreflightError:
        """The same error, with the spec's file."""
        return PreflightError(self.problem, file=file, key=self.key, hint=self.hint)


class StoreError(StoragelabError):
    """The results folder can't be used as asked."""


class RunFailed(StoragelabError):
    """One run could not be measured; `str()` is the reason that is stored with the run."""

    exit_code = 1


class DataRefused(RunFailed):
    """The user's own data can't be made, or its objects have other names than the spec's: no run of it could
    succeed.
    """

    exit_code = 2
