"""Settings that make a server run programs, load code, or leave its folders: refused, unless the user allows them."""

import os

import pytest
from real_mariadb import needs_mariadb
from real_servers import plan_of, site_at, small
from test_cli import write_spec

from storagelab.errors import PreflightError
from storagelab.model.engines import ENGINES
from storagelab.run.engine import engine_in, preflight

REFUSED = {
    "postgres": [
        *({name: "touch /tmp/x"} for name in (
            "archive_command", "restore_command", "archive_cleanup_command", "recovery_end_command",
            "ssl_passphrase_command",
            "Archive_Command",
        )),
        *({name: "evil"} for name in (
            "shared_preload_libraries", "session_preload_libraries", "local_preload_libraries", "archive_library",
            "jit_provider", "dynamic_library_path",
        )),
        {"log_directory": "/var/log"}, {"log_directory": "../.."},
        {"log_filename": "../../x.log"}, {"log_filename": "a/../../x"},
        {"ssl_key_file": "/etc/ssl/key.pem"}, {"stats_temp_directory": "~/x"},
    ],
    "mariadb": [
        {"wsrep_provider": "evil.so"}, {"wsrep_on": True}, {"wsrep-sst-method": "evil"}, {"wsrep_notify_cmd": "evil"},
        {"loose_plugin_load_one": "evil"}, {"plugin_maturity": "unknown"}, {"secure_file_priv": "/"},
        {"general_log_file": "/tmp/x"}, {"slow_query_log_file": "../x"}, {"innodb_data_file_path": "a:10M;/tmp/b:10M"},
        {"innodb_undo_directory": "/tmp"}, {"log_bin": "/tmp/binlog"}, {"character_sets_dir": "/tmp"},
        {"debug": "d:t:o,/tmp/x"},
    ],
}  # fmt: skip
HARMLESS = {
    "postgres": [
        {"archive_command": ""}, {"shared_preload_libraries": ""}, {"log_directory": "log"},
        {"timezone": "Europe/Berlin"},
        {"log_line_prefix": "%m [%p] "}, {"shared_buffers": "64MB"}, {"fsync": False},
        {"search_path": '"$user", public'},
        {"archive_mode": "off"}, {"log_filename": "postgres-%Y..log"},
    ],
    "mariadb": [
        {"default_time_zone": "+02:00"}, {"wsrep_on": False}, {"wsrep_provider": "none"}, {"secure_file_priv": ""},
        {"innodb_data_file_path": "ibdata1:12M:autoextend"}, {"general_log_file": "general.log"},
        {"sql_mode": "ANSI,TRADITIONAL"},
    ],
}  # fmt: skip


def each(cases):
    return [pytest.param(engine, settings, id=str(settings)) for engine, every in cases.items() for settings in every]


@pytest.mark.parametrize(("engine", "settings"), each(REFUSED))
def test_a_setting_that_gives_a_server_more_to_do_is_refused_by_key(scratch, engine, settings):
    config = small(scratch, engine=engine, settings=settings)
    with pytest.raises(PreflightError) as caught:
        preflight(plan_of(config), site_at(scratch))
    (name,) = settings
    assert caught.value.key == f"target.settings.{name}"
    assert "makes the server" in caught.value.problem
    assert "--allow-commands" in caught.value.hint


@pytest.mark.parametrize(("engine", "settings"), each(HARMLESS))
def test_a_setting_that_does_not_is_none_of_them(engine, settings):
    ((name, value),) = settings.items()
    assert value == "" or engine_in(ENGINES[engine].folder).privilege(name, value) is None


@pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=needs_mariadb)])
def test_what_storagelab_sets_itself_stays_refused_with_its_own_reason(scratch, engine):
    name = {"postgres": "data_directory", "mariadb": "plugin_dir"}[engine]
    config = small(scratch, engine=engine, settings={name: "/tmp/x"})
    for allowed in (False, True):
        with pytest.raises(PreflightError, match="storagelab itself sets this"):
            preflight(plan_of(config), site_at(scratch), allow_commands=allowed)


def test_levels_of_factors_are_looked_at_as_well(scratch):
    configs = [small(scratch), small(scratch, settings={"archive_command": "true"})]
    with pytest.raises(PreflightError, match="makes the server run a program"):
        preflight(plan_of(*configs), site_at(scratch))


SETTINGS = 'archive_mode = "on"\narchive_command = "touch {told}"\nlog_directory = "{told}"'


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_the_verbs_refuse_them_naming_file_and_key_and_list_them_all(typed, home, verb):
    told = home / "told"
    file = write_spec(home, setting=SETTINGS.format(told=told))
    code, out, err = typed(verb, file)
    assert (code, out if verb == "run" else "") == (2, "")
    assert f'{file}: target.settings.archive_command: "touch {told}" makes the server run a program' in err
    assert f'target.settings.log_directory = "{told}" makes the server use files outside its own folders' in err
    assert "--allow-commands" in err
    assert not (home / "results").exists()
    assert not told.exists()


def test_allowed_they_are_listed_by_plan_and_done_by_run(typed, home):
    elsewhere = home / "open"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    file = write_spec(home, setting=f'logging_collector = true\nlog_directory = "{elsewhere}"')
    code, out, _ = typed("plan", file, "--allow-commands")
    assert code == 0
    assert "target.settings.log_directory" in out
    assert "makes the server use files outside its own folders" in " ".join(out.split())
    assert list(elsewhere.iterdir()) == []
    code, _, _ = typed("run", file, "--allow-commands")
    assert code == 0
    assert list(elsewhere.iterdir()) != []


EVIL = (
    '[target]\nengine = "{engine}"\nbin_dir = "{folder}"\n[volumes.a]\npath = "."\n[layout]\ndata = ["a"]\nlog = "a"\n'
)
LOAD = "[workload]\nconnections = 1\nrows_per_connection = 10\n"


@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
@pytest.mark.parametrize("how", ["beside the spec", "open to all", "another's"])
def test_no_program_is_started_that_somebody_else_may_have_put_there(typed, scratch, engine, how):
    evil = scratch / "evil"
    evil.mkdir()
    for name in ("postgres", "initdb", "mariadbd", "mariadb", "mariadb-install-db"):
        (evil / name).write_text(f"#!/bin/sh\ntouch {scratch}/started\n")
        (evil / name).chmod(0o777 if how == "open to all" else 0o755)
    if how == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root gives a file to another user")
        os.chown(evil / "postgres", 65534, 65534)
    folder = "evil" if how == "beside the spec" else evil
    (scratch / "evil.toml").write_text("repetitions = 1\n" + EVIL.format(engine=engine, folder=folder) + LOAD)
    for verb in ("plan", "run"):
        code, out, err = typed(verb, scratch / "evil.toml", "--results", scratch / "r")
        assert code == 2
        assert "target.bin_dir" in out + err
        assert "--allow-commands" in err
    assert not (scratch / "started").exists()


def test_the_folder_of_a_server_that_is_installed_needs_no_leave(scratch, postgres_bin_dirs):
    for folder in postgres_bin_dirs:
        preflight(plan_of(small(scratch, bin_dir=str(folder))), site_at(scratch))
