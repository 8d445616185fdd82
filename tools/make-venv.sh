#!/bin/sh
# Make an empty virtual environment: tools/make-venv.sh FOLDER. Says what is missing, and how to get it, before anything is made.
set -eu
folder=$1

refuse() {
    echo "storagelab can't be set up: $1" >&2
    echo "  $2" >&2
    exit 2
}

# The locks hold wheels for CPython 3.11 to 3.14; the first interpreter among these that fits is taken.
usable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null
}

python=
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if usable "$candidate"; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || refuse \
    "it needs Python 3.11, 3.12, 3.13 or 3.14; ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>/dev/null || echo missing)." \
    "Install one (Debian 12 or later: apt-get install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3"

"$python" -c 'import ensurepip, venv' 2>/dev/null || refuse \
    "$python has no working venv module." \
    "Debian and Ubuntu keep it in a package of its own: apt-get install python3-venv"

command -v cargo >/dev/null || refuse \
    "it needs a Rust toolchain, and there is no cargo on the PATH." \
    "Install Rust 1.88 or later with rustup, then open a new terminal (or add ~/.cargo/bin to the PATH)."

command -v cc >/dev/null || refuse \
    "Rust links with the system's C compiler, and there is no cc on the PATH." \
    "Install one (Debian and Ubuntu: apt-get install build-essential)."

# A folder without its stamp was left half made; it is started afresh.
"$python" -m venv --clear "$folder"
