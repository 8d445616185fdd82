#!/bin/sh
# Build the wheels for Linux and the source distribution: tools/build-wheels.sh FOLDER
#
# They run on glibc 2.17 and later. The processor of this machine comes first; another one is left out with a note if its
# part of the Rust toolchain can't be installed.
set -eu
folder=$1
rm -rf "$folder"
unset PYO3_PYTHON # one wheel serves every Python from 3.11: none is asked

ready() {
    [ -d "$(rustc --print target-libdir --target "$1")" ] && return 0
    command -v rustup >/dev/null || return 1
    timeout 600 rustup target add "$1" >&2
}

here=$(uname -m)
for processor in "$here" x86_64 aarch64; do
    target=$processor-unknown-linux-gnu
    [ -z "$(ls "$folder"/*"_$processor.whl" 2>/dev/null)" ] || continue
    if ! ready "$target"; then
        echo "note: no wheel for $processor: its Rust library is not here, and could not be installed (rustup target add $target)." >&2
        continue
    fi
    echo "building the wheel for $processor ..."
    maturin build --quiet --release --strip --zig --compatibility manylinux_2_17 --target "$target" --out "$folder"
done
echo 'building the source distribution ...'
maturin sdist --out "$folder"
ls -l "$folder"
