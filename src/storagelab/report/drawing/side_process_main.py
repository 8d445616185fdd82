"""Run as a script by `drawing`: takes pickled (name -> Vega-Lite spec, Vega-Lite's version) and gives pickled name -> SVG.

It imports nothing from storagelab, whose modules would take longer to load than a chart takes to draw.
"""

import contextlib
import ctypes
import pickle
import signal
import sys

import vl_convert

_PR_SET_PDEATHSIG = 1


def main() -> None:
    with contextlib.suppress(AttributeError):  # Linux: if the parent is killed, nobody wants the charts
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The first chart takes half a second longer than others: draw one while the parent makes the page's specs.
    vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}})
    specs, version = pickle.load(sys.stdin.buffer)  # noqa: S301, it comes from the process that started this one
    svgs = {
        name: vl_convert.vegalite_to_svg(spec, vl_version=version, allowed_base_urls=[]) for name, spec in specs.items()
    }
    pickle.dump(svgs, sys.stdout.buffer)


if __name__ == "__main__":
    main()
