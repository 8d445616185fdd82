"""MariaDB as a target: one cell's layout on a private or an attached server, set up, loaded, measured, removed."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pymysql

import storagelab
from storagelab import cpu_time, host
from storagelab.devices import DeviceCounters
from storagelab.devices import difference as device_difference
from storagelab.errors import PreflightError, RunFailed
from storagelab.model import Cell, Check, Config, Measurement
from storagelab.targets import Progress, Site
from storagelab.targets.folders import Folders
from storagelab.targets.loops import Loop
from storagelab.targets.mariadb import attached, read_back
from storagelab.targets.mariadb.binaries import binaries_for
from storagelab.targets.mariadb.connecting import Address, Connection, address_of, attach, close, connect, words_of
from storagelab.targets.mariadb.counters import read_counters, read_file_counters
from storagelab.targets.mariadb.layout import Layout
from storagelab.targets.mariadb.sampler import Sampled, Sampler
from storagelab.targets.mariadb.server import Server
from storagelab.targets.mariadb.settings import check_settings, private_settings, settings_text
from storagelab.targets.mariadb.workload import Workers
from storagelab.targets.steps import Counters, check_reads, check_watching, difference, prepare_machine, reads_made
from storagelab.targets.uninterrupted import uninterrupted

_FOREIGN_ERRORS = (pymysql.MySQLError, PreflightError, OSError, subprocess.SubprocessError)
"""What one run may break with, so that it is stored as failed and the next ones go on; anything else is a bug."""
_RECOVERY_S = 20.0
"""How long an attached server that comes up again after a crash is waited for."""
_NOT_THERE = (2002, 2003, 2006, 2013)


class MariaDBTarget:
    """A context manager for one cell. Entering raises RunFailed; leaving removes everything that was made."""

    def __init__(self, config: Config, site: Site) -> None:
        self.config, self.site = config, site
        self.volumes = site.volume_paths(config)
        self.folders = Folders(site, self.volumes)
        self.layout = Layout(config, site.prefix, self.folders if self.volumes else None)
        self.server: Server | None = None
        self._facts: attached.ServerFacts | None = None
        self._address: Address | None = None
        self._connection: Connection | None = None
        self._expected: dict[str, str] = {}
        self.setup_s = 0.0

    # --- set-up and teardown -----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        began = time.perf_counter()
        try:
            if self.config.target.attached:
                self._attach()
            else:
                self.folders.make()
                self._start_private_server()
            self._connection = self._connect()
            self.layout.create(self._connection)
        except _FOREIGN_ERRORS as error:
            reason = f"the layout could not be set up: {self._with_log(error)}"
            self.__exit__(type(error), error, None)
            raise RunFailed(reason) from error
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.setup_s = time.perf_counter() - began
        return self

    def _start_private_server(self) -> None:
        binaries = binaries_for(self.config, self.site)
        settings = private_settings(self.config)
        self._expected = check_settings(binaries, settings)
        assert self.config.log_volume is not None
        self.server = Server(
            binaries,
            data_folder=self.folders[self.config.data_volumes[0]] / "server",
            log_folder=self.folders[self.config.log_volume] / "log",
            settings=settings,
            waits=self.config.measure.waits,
        )
        self.server.start()
        self._address = self.server.address
        self.layout.make_folders()

    def _attach(self) -> None:
        self._address = address_of(self.config.target)
        connection = attach(self.config.target)
        try:
            self._facts = attached.read_facts(connection)
            self.layout.drop(connection)
        finally:
            close(connection)
        self.folders.remove()  # if the run before this one could not remove them, as the server was away
        self.folders.make()
        self.layout.make_folders(self._facts.process_owner)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raises RunFailed if not all could be removed, unless there is an error already: the first reason wins."""
        with uninterrupted():
            try:
                self._tear_down()
            except RunFailed:
                if kind is None:
                    raise

    def _tear_down(self) -> None:
        connection, self._connection = self._connection, None
        close(connection)
        if self.server is not None:
            self.server.stop()
        elif self.config.target.attached:
            if self._facts is None:  # never got there: an earlier run's folders may still be in the server's use
                return
            self._drop_from_server()
        self.folders.remove()

    def _drop_from_server(self) -> None:
        """On a connection of its own, as the run's may be lost.

        Raises RunFailed if that can't be done; the folders then stay, because the server would miss its files.
        """
        deadline = time.monotonic() + _RECOVERY_S
        assert self._address is not None
        while True:
            connection = None
            try:
                connection = connect(self._address)
                self.layout.drop(connection)
                return
            except (pymysql.MySQLError, PreflightError) as error:
                away = isinstance(error, pymysql.MySQLError) and error.args and error.args[0] in _NOT_THERE
                if not away or time.monotonic() > deadline:
                    raise RunFailed(
                        f"what was made on the server could not be dropped: {words_of(error)}; "
                        "that is tried again before the next run"
                    ) from error
            finally:
                close(connection)
            time.sleep(0.2)

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        assert self._address is not None, "the target is not entered"
        return connect(self._address)

    def _connect_worker(self) -> Connection:
        connection = self._connect()
        if self.server is None:
            attached.set_for_session(connection, self.config.target.settings)
        return connection

    @property
    def _own(self) -> Connection:
        assert self._connection is not None, "the target is not entered"
        return self._connection

    @property
    def _pid(self) -> int | None:
        """The server's process, where this machine's kernel can be asked about it."""
        if self._facts is not None:
            return self._facts.pid
        known = self.server is not None and Path("/proc/self/schedstat").exists()
        return self.server.pid if known and self.server is not None else None

    # --- what a run needs --------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, object]:
        """The environment of a run. Passwords and DSNs are never part of it."""
        connection = self._connect_worker()
        try:
            return self._environment(connection)
        finally:
            close(connection)

    def _environment(self, connection: Connection) -> dict[str, object]:
        """As one of the workload's sessions sees it: on an attached server only those have the settings asked for."""
        how = "private" if self.server is not None else "attached"
        origin = self.server.binaries.origin if self.server is not None else ""
        here = host.describe_host()
        remote = self._facts is not None and not self._facts.on_this_machine
        facts = read_back.server_facts(connection, self.config.target.settings)
        return {
            **({"host": {}, "client": here} if remote else {"host": here}),
            "volumes": {name: host.describe_volume(path) for name, path in self._watched_volumes().items()},
            "server": {"engine": "mariadb", "how": how, "origin": origin, **facts},
            "storagelab": {"version": storagelab.__version__},
        }

    def _watched_volumes(self) -> dict[str, Path]:
        """The spec's volumes; without any, where an attached server of this machine keeps its files, if it may be seen."""
        if self.volumes or self._facts is None or not self._facts.on_this_machine:
            return self.volumes
        folder = attached.data_folder(self._own)
        return {"server": folder} if folder is not None else {}

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:  # noqa: ARG002
        """Load once and measure. Raises RunFailed with the server's words; the layout can't be used again."""
        try:
            return self._run(seed, progress)
        except (RunFailed, *_FOREIGN_ERRORS) as error:
            raise RunFailed(self._with_log(error)) from error

    def _with_log(self, error: BaseException) -> str:
        """The error's words, and those of the server's log if a connection was lost with it: it says why."""
        words = words_of(error)
        if self.server is None or "connection" not in words.lower():
            return words
        deadline = time.monotonic() + 1.0
        while not self.server.died() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not self.server.died():
            return words
        return f"the server died: {words}\nthe server's log says:\n{self.server.log_of_trouble()}"

    def _run(self, seed: int, progress: Progress) -> Measurement:
        workers = Workers(self._connect_worker, self.config.workload, self.layout.schema, seed)
        try:
            workers.open()
            environment = self._environment(workers.first)
            between = self.config.between_runs
            prepare_machine(between, self.volumes, lambda: self.layout.write_out(self._own))
            devices = DeviceCounters(self._watched_volumes())
            sampler = self._sampler(workers, devices)
            try:
                sampler.prepare()
                workers.gather()
                counters_before, devices_before = self._read_counters(), devices.read()
                cpu_before = cpu_time.read_cpu_time(self._pid)
                sampler.baseline()
                sampler.start()
                workers.release()
                loops = workers.wait(lambda: progress(sampler.progress()))
            finally:
                sampled = sampler.stop()
            devices_after, cpu_after = devices.read(), cpu_time.read_cpu_time(self._pid)
            counters = difference(counters_before, self._read_counters()) | reads_made(loops)
            checks = [*self._check_settings(workers), *check_reads(self.config.workload, loops)]
        finally:
            workers.close(self._own)
        counters["volumes"] = device_difference(devices_before, devices_after)
        counters["cpu"] = cpu_time.difference(cpu_before, cpu_after)
        checkpoint_s = self._checkpoint()
        if checkpoint_s is not None:
            counters["volumes, final checkpoint"] = device_difference(devices_after, devices.read())
        return self._measurement(loops, sampled, counters, checkpoint_s, environment, checks)

    def _read_counters(self) -> Counters:
        counters = read_counters(self._own)
        if self._facts is not None and not self._facts.performance_schema:
            return counters
        files = {f"data_file_{number}": str(path) for number, path in self._files().items()}
        return {**counters, **read_file_counters(self._own, files)}

    def _files(self) -> dict[int, Path]:
        """The data files by their whole paths, as performance_schema names them."""
        folder = self.server.data_folder if self.server is not None else attached.data_folder(self._own)
        return {
            number: path if path.is_absolute() else (folder or Path()) / path
            for number, path in self.layout.files(self._own).items()
        }

    def _sampler(self, workers: Workers, devices: DeviceCounters) -> Sampler:
        pid = self._pid
        return Sampler(
            connect=self._connect,
            ids=workers.ids,
            hz=self.config.measure.sample_hz,
            sample_waits=self.config.measure.waits,
            server_pid=pid,
            paths={str(path): number for number, path in self._files().items()},
            probe=devices.read,
            no_split_reason="" if pid is not None else "the server's threads can't be seen from here",
        )

    def _checkpoint(self) -> float | None:
        """Seconds that writing out the table takes after the load; None where the login may not ask for it."""
        if self._facts is not None and not self._facts.may("RELOAD"):
            return None
        began = time.perf_counter()
        self.layout.write_out(self._own)
        return time.perf_counter() - began

    def _check_settings(self, workers: Workers) -> list[Check]:
        if self.server is not None:
            asked = private_settings(self.config)
            return read_back.settings(workers.first, _texts(asked), self._expected)
        asked = self.config.target.settings
        return read_back.settings(workers.first, _texts(asked), _texts(asked))

    def _measurement(
        self,
        loops: list[Loop],
        sampled: Sampled,
        counters: Counters,
        checkpoint_s: float | None,
        environment: dict[str, object],
        checks: list[Check],
    ) -> Measurement:
        elapsed_s = max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops)
        connection_s = tuple(loop.finished_s - loop.started_s for loop in loops)
        wanted = self.config.workload.rows
        rows = self.layout.count_rows(self._own)
        if rows != wanted:
            raise RunFailed(f"the table holds {rows} rows, {wanted} were to be inserted")
        waits = sampled.waits(elapsed_s, sum(connection_s), len(loops)) if self.config.measure.waits else None
        return Measurement(
            provenance="measured",
            elapsed_s=elapsed_s,
            rows=rows,
            checkpoint_s=checkpoint_s,
            connection_s=connection_s,
            waits=waits,
            waiting_tasks=sampled.waiting_tasks,
            counters=counters,
            series=sampled.series,
            environment=environment,
            checks=(
                *self.layout.read_back(self._own),
                *self._check_log_place(),
                *checks,
                *self._check_pages(rows),
                *check_watching(sampled.error),
            ),
            observer=sampled.observer,
            setup_s=self.setup_s,
        )

    def _check_log_place(self) -> list[Check]:
        """The log's folder by the server, and that the log is in it by the file system."""
        if self.server is None:
            return []
        asked = str(self.server.log_folder)
        there = any(name.startswith("ib_logfile") for name in os.listdir(self.server.log_folder))
        got = str(self.layout.log_folder(self._own)) if there else "no log file there"
        ok = os.path.realpath(got) == os.path.realpath(asked)
        return [Check(name="place of the log", asked=asked, got=got, ok=ok, read_from="innodb_log_group_home_dir")]

    def _check_pages(self, rows: int) -> list[Check]:
        if self.config.workload.kind != "sequential-insert":
            return []
        return [read_back.one_page_a_row(self._own, self.layout, rows)]


def _texts(settings: dict[str, str | int | float | bool]) -> dict[str, str]:
    return {name: settings_text(value) for name, value in settings.items()}


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """What a killed run left on an attached server is dropped; says what. Raises PreflightError when it can't be."""
    connection = attach(config.target)
    try:
        return Layout(config, site.prefix, None).drop(connection)
    except pymysql.MySQLError as error:
        raise PreflightError(
            f"what an earlier run left on the server can't be dropped: {words_of(error)}",
            key="target.dsn",
            hint=f"drop the database {site.prefix} by hand, as its owner",
        ) from error
    finally:
        close(connection)
