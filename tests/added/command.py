"""storagelab's command line, with the files beside this one as if they stood in storagelab's own folders.

    python command.py WORDS...     what `storagelab WORDS...` does
    python command.py keys         the reference of the keys of [workload]

Files of loads are found by themselves. An engine takes one line where engines are listed.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
LINE = '    "ledger": Engine("Ledger", "ledger"),\n'


def _with_one_line_more(name: str) -> ModuleType:
    """The module that lists engines, with one more."""
    found = importlib.util.find_spec(name)
    assert isinstance(found.loader, importlib.abc.InspectLoader)
    before, after = (found.loader.get_source(name) or "").split("ENGINES = {\n")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    exec(compile(f"{before}ENGINES = {{\n{LINE}{after}", found.origin or name, "exec"), module.__dict__)
    return module


def main() -> None:
    from storagelab.model import loads

    loads.__path__.append(str(HERE / "loads"))
    _with_one_line_more("storagelab.model.engines")
    from storagelab import engines
    from storagelab.engines.postgres import loads as of_postgres

    engines.__path__.append(str(HERE / "engines"))
    of_postgres.__path__.append(str(HERE / "of_postgres"))
    if sys.argv[1:] == ["keys"]:
        sys.path.append(str(HERE.parent.parent / "tools"))
        import make_docs

        sys.stdout.write(make_docs.keys_of_table("workload") + make_docs.keys_of_table("target"))
        return
    from storagelab.__main__ import main as command

    command()


if __name__ == "__main__":
    main()
