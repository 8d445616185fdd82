"""Settings of a private MariaDB: its own parser decides, and nothing is changed silently."""

import pytest
from real_mariadb import needs_mariadb
from real_servers import small

from storagelab.engines.mariadb.server import check_settings, find_binaries, private_settings
from storagelab.errors import PreflightError

pytestmark = needs_mariadb


def test_the_parsers_reading_of_each_setting_is_told():
    asked = {"innodb_page_size": "4k", "innodb-buffer-pool-size": "64M", "innodb_adaptive_hash_index": True}
    assert check_settings(find_binaries(None), asked) == {
        "innodb_page_size": "4096",
        "innodb-buffer-pool-size": str(64 * 2**20),
        "innodb_adaptive_hash_index": "TRUE",  # as the parser writes it; the server itself says ON
    }


@pytest.mark.parametrize(
    ("name", "value", "words", "hint"),
    [
        ("innodb_flush_log_at_trx_commit", 9, "adjusted to 3", "was asked"),
        ("innodb_page_size", "banana", "Unknown suffix 'b'", "was asked"),
        ("innodb_bufer_pool_size", "1G", "unknown variable", "Did you mean innodb_buffer_pool_size? "),
        ("innodb_buffer_pool_siz", "1G", "ambiguous option", "Did you mean innodb_buffer_pool_size? "),
        ("innodb_flush_log_at_trx", 1, "no setting of that name", "Did you mean innodb_flush_log_at_trx_commit? "),
        ("character_set_server", "nope", "Character set 'nope' is not a compiled character set", "was asked"),
        ("max_connections", 1, "1 adjusted to 10", "was asked"),
        ("sql_mode", "NONSENSE", "NONSENSE", "was asked"),
        ("nothing; rm -rf", 1, "unknown variable", "was asked"),
        ("datadir", "/etc", "storagelab itself sets it", "leave it out"),
        ("innodb-log-group-home-dir", "/etc", "storagelab itself sets it", "leave it out"),
    ],
)
def test_what_the_server_would_refuse_or_change_is_refused_by_key(name, value, words, hint):
    with pytest.raises(PreflightError) as caught:
        check_settings(find_binaries(None), {name: value})
    assert caught.value.key == f"target.settings.{name}"
    assert words in caught.value.problem
    assert hint in caught.value.hint


def test_a_server_takes_as_many_connections_as_the_workload_needs(scratch):
    assert private_settings(small(scratch, engine="mariadb", connections=300))["max_connections"] == 308
