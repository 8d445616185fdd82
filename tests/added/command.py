"""storagelab's command line, with the files beside this one as if they stood in storagelab's own folders.

`command.py TEMPLATES` takes the shortcuts of other tests. It reads a folder and words from lines of JSON, and answers
with the exit code and what was said: of `storagelab WORDS...`, or for "keys", of the reference of the keys of
[workload]. Each runs in a process of its own, which has loaded everything already.

Files of loads are found by themselves. An engine takes one line where engines are listed.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import pkgutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

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
    from storagelab import targets
    from storagelab.targets.postgres import loads as of_postgres

    targets.__path__.append(str(HERE / "engines"))
    of_postgres.__path__.append(str(HERE / "of_postgres"))
    sys.path.append(str(HERE.parent))
    import shortcuts

    from storagelab import verbs
    from storagelab.__main__ import main as command

    shortcuts.take(Path(sys.argv[1]))
    for module in pkgutil.iter_modules(verbs.__path__):
        importlib.import_module(f"storagelab.verbs.{module.name}")
    sys.path.append(str(HERE.parent.parent / "tools"))
    import make_docs

    def run(words: list[str]) -> None:
        if words == ["keys"]:
            sys.stdout.write(make_docs.keys_of_table("workload") + make_docs.keys_of_table("target"))
        else:
            sys.argv = ["storagelab", *words]
            command()

    for line in sys.stdin:
        folder, words = json.loads(line)
        with tempfile.TemporaryFile("w+") as said:
            child = os.fork()
            if child == 0:
                _end_with(said.fileno(), folder, words, run)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            sys.stdout.write(json.dumps([code, said.read()]) + "\n")
            sys.stdout.flush()


def _end_with(said: int, folder: str, words: list[str], run: Callable[[list[str]], None]) -> NoReturn:
    """What a process does: the words' work, with its own exit code."""
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    code = 0
    try:
        run(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
