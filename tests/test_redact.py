"""No part of a password is shown or stored, wherever in a DSN it is: engines x malformed DSNs x verbs, and files."""

import importlib.util
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from storagelab.model.config import TargetConfig
from storagelab.model.target import Preflight
from storagelab.servers.attached import HIDDEN, hidden
from storagelab.verbs import _planning as planning
from storagelab.verbs import _running as run

LEFT, RIGHT = "tr0ub4dor", "xyzzyqvark"
SCHEMES = {"postgres": "postgresql", "mariadb": "mysql", "sqlserver": "mssql"}
needs_pymssql = pytest.mark.skipif(importlib.util.find_spec("pymssql") is None, reason="no driver for SQL Server")

URIS = {
    "an unencoded @": "{scheme}://lab:{left}@{right}@127.0.0.1:1/db",
    "an unencoded @ and no host": "{scheme}://lab:{left}@{right}",
    "an unencoded @ before a colon": "{scheme}://lab:{left}@{right}:1/db",
    "an unencoded slash": "{scheme}://lab:{left}/{right}@127.0.0.1:1/db",
    "an unencoded question mark": "{scheme}://lab:{left}?{right}=1@127.0.0.1:1/db",
    "an unencoded hash": "{scheme}://lab:{left}#{right}@127.0.0.1:1/db",
    "a bracket": "{scheme}://lab:{left}[{right}@127.0.0.1:1/db",
    "a colon": "{scheme}://lab:{left}:{right}@127.0.0.1:1/db",
    "a percent sign": "{scheme}://lab:{left}%{right}@127.0.0.1:1/db",
    "as the host, of odd form": "{scheme}://lab@{left}..{right}/db", "as the port": "{scheme}://lab:{left}{right}/db",
    "as the port of a host": "{scheme}://lab@127.0.0.1:{left}{right}/db",
    "as an option": "{scheme}://lab@127.0.0.1:1/db?{left}{right}",
    "as an option's name": "{scheme}://lab@127.0.0.1:1/db?{left}{right}=1", "without a scheme": "{left}{right}",
    "behind a scheme of no engine": "{left}://lab:{right}@127.0.0.1:1/db",
    "with a zero byte": "{scheme}://lab@{left}%00{right}/db",
    "with bytes that are no text": "{scheme}://lab:{left}\udcff{right}@127.0.0.1:1/db",
}  # fmt: skip
CONNINFOS = {
    "with a blank": "host=127.0.0.1 port=1 user=lab password={left} {right}",
    "with an open quote": "host=127.0.0.1 port=1 user=lab password='{left} {right}",
    "a conninfo's port": "host=127.0.0.1 port={left}{right} user=lab",
    "a conninfo's option": "host=127.0.0.1 port=1 {left}{right}=1",
    "a conninfo's mode": "host=127.0.0.1 port=1 sslpassword={left} requiressl={right}",
}
CASES = [
    pytest.param(engine, text, id=f"{engine}: {name}", marks=[needs_pymssql] if engine == "sqlserver" else [])
    for engine in SCHEMES for name, text in (URIS | (CONNINFOS if engine == "postgres" else {})).items()
]  # fmt: skip
SPEC = """
name = "lab"
repetitions = 1
[target]
engine = "{engine}"
{target}
[workload]
connections = 1
rows_per_connection = 10
rows_per_transaction = 10
"""


def pieces(length: int = 4) -> set[str]:
    return {word[i : i + length] for word in (LEFT, RIGHT) for i in range(len(word) - length + 1)}


def shown_in(text: str, length: int = 4) -> list[str]:
    return sorted(piece for piece in pieces(length) if piece in text.lower())


def dsn(engine: str, text: str) -> str:
    return text.format(scheme=SCHEMES[engine], left=LEFT, right=RIGHT)


@pytest.mark.parametrize(("engine", "text"), CASES)
def test_no_verb_shows_a_piece_of_it(typed, home, monkeypatch, engine, text):
    monkeypatch.setenv("LAB", dsn(engine, text))
    (home / "lab.toml").write_text(SPEC.format(engine=engine, target='dsn_env = "LAB"'))
    for words in (["plan", "lab.toml"], ["run", "lab.toml"], ["doctor", "--target", "LAB"]):
        code, out, err = typed(*words)
        assert code in (1, 2), words
        assert shown_in(out + err) == []
    assert not (home / "results").exists()


@pytest.mark.parametrize(("engine", "text"), CASES)
def test_no_verb_shows_a_piece_of_it_where_it_is_given_in_the_open(typed, home, engine, text):
    given = dsn(engine, text)
    written = "".join(letter if letter.isprintable() else "" for letter in given)
    lines = [f'dsn = "{written}"', f'dsn = ["{written}"]']
    if not written.isalnum():  # otherwise it is the name of a variable, and is shown
        lines.append(f'dsn_env = "{written}"')
    for line in lines:
        (home / "lab.toml").write_text(SPEC.format(engine=engine, target=line))
        for verb in ("plan", "run"):
            code, out, err = typed(verb, "lab.toml")
            assert code == 2
            assert shown_in(out + err) == []
    code, out, err = typed("doctor", "--target", given)
    assert code in (1, 2)
    assert shown_in(out + err) == []


@pytest.mark.parametrize("engine", ["postgres", "mariadb", pytest.param("sqlserver", marks=needs_pymssql)])
def test_no_run_stores_a_piece_of_it(typed, home, monkeypatch, engine):
    """As if the variables had changed after the checks before the run: the driver's message becomes the run's
    reason."""
    texts = [*URIS.values(), *(CONNINFOS.values() if engine == "postgres" else [])]
    for number, text in enumerate(texts):
        monkeypatch.setenv(f"LAB_{number}", dsn(engine, text))
    monkeypatch.setattr(planning, "survey", lambda *_, **__: Preflight(server="a server", volumes=()))
    monkeypatch.setattr(run, "sweep", lambda *_: [])
    variables = [f"LAB_{number}" for number in range(len(texts))]
    levels = f'[factors]\n"target.dsn_env" = {variables}'
    (home / "lab.toml").write_text(SPEC.format(engine=engine, target='dsn_env = "LAB_0"') + levels)
    code, out, err = typed("run", "lab.toml")
    assert code == 1
    assert f"{len(texts)} runs to make" in err
    said = [out + err]
    for words in (["waits", "lab"], ["export", "lab"], ["export", "lab", "--format", "csv"], ["report", "lab"],
                  ["report", "lab", "--format", "md"], ["export", "lab", "--format", "waits-csv"]):  # fmt: skip
        said += typed(*words)[1:]
    assert shown_in("\n".join(said)) == []
    for file in (path for path in (home / "results").rglob("*") if path.is_file()):
        assert shown_in(file.read_bytes().decode("latin-1"), length=6) == [], file.name


def test_a_dsn_that_changed_is_said_to_have_changed_and_no_more():
    from storagelab.spec.reading import differences

    old, new = ({"target": {"dsn": f"postgresql://lab:{word}/db"}} for word in (LEFT, RIGHT))
    assert differences(old, new) == ["target.dsn: changed"]


def as_shown(words: str, dsn: str) -> str:
    return hidden(words, TargetConfig(engine="postgres", dsn=dsn))


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("postgresql://someone@localhost/db", 'host "localhost", user "someone"'),
        ("postgresql://someone@db.example.org:5433/db", 'host "db.example.org", port 5433, user "someone"'),
        ("postgresql://someone:xyzzy@localhost/db", 'host "localhost", user "someone"'),
        ("host=example.org user=someone password=abc sslpassword=xyzzy", "someone, example.org, abcd"),
        ("postgresql://me@localhost/lab", 'database "lab" does not exist on this host'),
        ("postgresql://postgres@h/lab", 'role "postgres" of PostgreSQL'),
        ("postgresql://me@h/lab?sslmode=require", "encryption is required"),
        ("host=h user=me dbname=database", 'database "database" is not there'),
    ],
)
def test_words_without_a_piece_of_a_secret_are_shown(dsn, words):
    assert as_shown(words, dsn) == words


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("postgresql://someone:xyzzy@localhost/db", 'host "localhost", user "someone": xyzzy'),
        ("postgresql://someone:pass@word/db", 'no host "word" for user "someone"'),
        ("host=example.org user=someone password='it''s' sslpassword=xyzzy", "someone, example.org"),
        ("host=example.org user=someone password=abc sslpassword=xyzzy", "abc"),
        ("postgresql://h/db?user=someone&password=xyzzy", 'user "someone", xyzzy'),
        ("postgresql://h/db?sesame=xyzzy", 'host "h/db"'), ("mysql://u:Secret99@h/", "no such host: secret99"),
        ("mysql://u:se%40cret@h/", "bad: se@cret"), ("mysql://u:se%40cret@h/", "bad: se%40cret"),
    ],
)  # fmt: skip
def test_words_with_a_piece_of_a_secret_are_hidden_and_of_a_dsn_of_no_plain_form_all_is_secret(dsn, words):
    assert as_shown(words, dsn) == HIDDEN


def test_of_a_private_server_nothing_is_hidden():
    assert hidden("anything at all", TargetConfig(engine="postgres")) == "anything at all"


def test_passwords_in_variables_are_hidden_too(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "open-sesame")
    assert as_shown("it said open-sesame", "postgresql://h/db") == HIDDEN


@pytest.mark.parametrize("text", ["host={folder} user=lab", "postgresql:///postgres?host={folder}"])
def test_the_folder_of_a_socket_is_shown(tmp_path, text):
    words = f'connection to server on socket "{tmp_path}/.s.PGSQL.5432" failed'
    assert hidden(words, TargetConfig(engine="postgres", dsn=text.format(folder=tmp_path))) == words


def test_passwords_in_a_passfile_are_hidden(tmp_path):
    file = tmp_path / "pgpass"
    file.write_text("# a remark\nlocalhost:5432:*:someone:open\\:sesame\n")
    assert as_shown("someone said open:sesame", f"host=localhost user=someone passfile={file}") == HIDDEN


SIGNS = st.text(st.sampled_from("QXZKVWJ9876@:/?#%[]' \\=&;.-"), min_size=4, max_size=12).filter(
    lambda text: text == text.strip()
)
FORMS = ["postgresql://someone:{}@localhost:5432/db", "postgresql://someone:{}@/db",
"postgresql://someone:{}@db.example.org/db",
         "postgresql://someone@localhost/db?password={}", "host=localhost user=someone password={}",
         "host=localhost user=someone password='{}'", "user=someone sslpassword={} dbname=db"]  # fmt: skip


@given(
    SIGNS,
    st.sampled_from(FORMS),
    st.sampled_from([str, quote, lambda text: text.replace("\\", "\\\\").replace("'", "\\'")]),
)
def test_no_password_shows_through_what_libpq_makes_of_a_dsn(password, form, written):
    """Whatever it takes for the host, the user or the port, a driver may name in its messages."""
    dsn = form.format(written(password))
    try:
        said = " ".join(f'{name} "{value}"' for name, value in conninfo_to_dict(dsn).items())
    except (psycopg.ProgrammingError, UnicodeDecodeError) as error:
        said = str(error)
    shown = as_shown(f"{said}, {dsn}, {password!r}", dsn)
    parts = {password[i : i + 4] for i in range(len(password) - 3)}
    assert [part for part in parts if part in shown] == []
