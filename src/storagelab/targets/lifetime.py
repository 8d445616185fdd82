"""How long a target lives: entering sets up or says why it can't, leaving removes everything that was made."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Self

from storagelab.errors import RunFailed
from storagelab.model.config import Config
from storagelab.stopping import uninterrupted
from storagelab.targets.hiding import hidden


class Lifetime(ABC):
    """A context manager for one run. Entering raises RunFailed; `setup_s` is how long it took."""

    foreign_errors: ClassVar[tuple[type[BaseException], ...]]
    """Errors that fail one run: it is stored as failed and the next runs go on. Any other error is a bug."""

    def __init__(self, config: Config) -> None:
        self.config, self.setup_s = config, 0.0

    @abstractmethod
    def _set_up(self) -> None: ...

    @abstractmethod
    def _tear_down(self) -> None:
        """Tears down, even after an incomplete set-up. Raises RunFailed if something could not be removed."""

    @abstractmethod
    def _words(self, error: BaseException) -> str:
        """The error in the server's own words."""

    def __enter__(self) -> Self:
        began = time.perf_counter()
        try:
            self._set_up()
        except self.foreign_errors as error:
            reason = f"can't set up the layout: {hidden(self._words(error), self.config.target)}"
            self.__exit__(type(error), error, None)
            raise RunFailed(reason) from error
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.setup_s = time.perf_counter() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raises RunFailed if something could not be removed, unless an error is already under way: the first reason wins."""
        with uninterrupted():
            try:
                self._tear_down()
            except RunFailed:
                if kind is None:
                    raise
