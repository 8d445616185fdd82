"""storagelab's command line, with the files beside this one as if they stood in storagelab's own folders.

`command.py TEMPLATES` takes the shortcuts of other tests. It reads a folder and words from lines of JSON, and answers
with the exit code and what was said: of `storagelab WORDS...`, or for "keys", of the reference of some tables' keys.
Each runs in a process of its own, which has loaded everything already.

Files of loads and of layers of volumes are found by themselves. An engine takes one line where engines are listed.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
LINES = """    "ledger": Engine("Ledger", "ledger"),
    "mysql": Engine("MySQL", "mysql", generators=("sysbench",), page_bytes=16384, temporary_fixed=True),
"""


def _with_lines(name: str) -> ModuleType:
    """The module that lists engines, with a line more for each engine."""
    found = importlib.util.find_spec(name)
    assert isinstance(found.loader, importlib.abc.InspectLoader)
    before, after = (found.loader.get_source(name) or "").split("ENGINES = {\n")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    exec(compile(f"{before}ENGINES = {{\n{LINES}{after}", found.origin or name, "exec"), module.__dict__)
    return module


def main() -> None:
    from storagelab.model import layers, loads

    layers.__path__.append(str(HERE / "layers"))
    loads.__path__.append(str(HERE / "loads"))
    _with_lines("storagelab.model.engines")
    from storagelab import engines
    from storagelab.engines.postgres import loads as of_postgres

    engines.__path__.append(str(HERE / "engines"))
    of_postgres.__path__.append(str(HERE / "of_postgres"))
    sys.path += [str(HERE.parent), str(HERE.parent.parent), str(HERE.parent.parent / "tools")]
    import make_docs
    import shortcuts

    from bench.fuzz import Said, in_process
    from storagelab import verbs

    shortcuts.take(Path(sys.argv[1]))
    for module in pkgutil.iter_modules(verbs.__path__):
        importlib.import_module(f"storagelab.verbs.{module.name}")
    for line in sys.stdin:
        folder, words = json.loads(line)
        if words == ["keys"]:
            said = Said(0, "".join(map(make_docs.keys_of_table, ("workload", "target", "volumes"))), "")
        else:
            said = in_process(words, Path(folder))
        sys.stdout.write(json.dumps([said.code, said.out + said.err]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
