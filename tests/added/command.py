"""Runs storagelab's command line with the files beside this one, as if they were in storagelab's own folders.

`command.py TEMPLATES` takes the shortcuts of other tests. It reads a folder and words from lines of JSON.

It answers with the exit code and the output of `storagelab WORDS...` or, for "keys", with the reference of some tables'
keys. Each command runs in a separate process, which has loaded everything already. storagelab finds files of verbs, of
loads and of layers of volumes without a list. An engine needs one line in the list of engines. A key needs a line in
its table's list and one in the code.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import linecache
import pkgutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLES = ("workload", "target", "volumes", "between_runs")
LINES = """    "ledger": Engine("Ledger", "ledger"),
    "mysql": Engine("MySQL", "mysql", generators=("sysbench",), page_bytes=16384, temporary_fixed=True),
"""


KEY = """    rest_s: float = Field(0.0, ge=0, le=60)
    \"\"\"Real servers: let the drives rest, once all is written out.\"\"\"
"""
DOES = """    if between.rest_s:
        Path("rested").write_text(str(between.rest_s))
"""


def _with_lines(name: str, place: str, lines: str) -> None:
    """Loads the module with these lines after its line `place`."""
    found = importlib.util.find_spec(name)
    assert isinstance(found.loader, importlib.abc.InspectLoader)
    before, after = (found.loader.get_source(name) or "").split(place)
    text, file = before + place + lines + after, found.origin or name
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # what describes keys reads it
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    exec(compile(text, file, "exec"), module.__dict__)


def main() -> None:
    from storagelab.model import layers, loads

    layers.__path__.append(str(HERE / "layers"))
    loads.__path__.append(str(HERE / "loads"))
    _with_lines("storagelab.model.engines", "ENGINES = {\n", LINES)
    _with_lines("storagelab.model.config", '    """Real servers: the pause before each run."""\n', KEY)
    _with_lines("storagelab.servers.interfaces", "        host.drop_page_cache()\n", DOES)
    from storagelab import engines
    from storagelab.engines.postgres import loads as of_postgres

    engines.__path__.append(str(HERE / "engines"))
    of_postgres.__path__.append(str(HERE / "of_postgres"))
    sys.path += [str(HERE.parent), str(HERE.parent.parent), str(HERE.parent.parent / "tools")]
    import make_docs
    import shortcuts

    from bench.fuzz import Said, in_process
    from storagelab import verbs

    verbs.__path__.append(str(HERE / "verbs"))
    shortcuts.take(Path(sys.argv[1]))
    for module in pkgutil.iter_modules(verbs.__path__):
        importlib.import_module(f"storagelab.verbs.{module.name}")
    for line in sys.stdin:
        folder, words = json.loads(line)
        if words == ["keys"]:
            said = Said(0, "".join(map(make_docs.keys_of_table, TABLES)), "")
        else:
            said = in_process(words, Path(folder))
        sys.stdout.write(json.dumps([said.code, said.out + said.err]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
