#!/bin/sh
# Writes requirements/*.txt: every package that the Makefile installs, with the hashes of all its files, for Python 3.11
# and newer on any system. Versions stay as they are, unless --upgrade is given. Each file has only what those before
# it lack; interop.txt is for an environment of its own.
set -eu
cd "$(dirname "$0")/.."

lock() { # name of the file, arguments of uv
    name=$1
    shift
    uv pip compile "$@" --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url \
        --custom-compile-command 'make lock' --output-file "requirements/$name.txt" $upgrade
}

upgrade=${1:-}
build='import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")'
{ python -c "$build" && echo editables; } | lock build - # which hatchling wants for an editable install
below=
for layer in user postgres test dev; do
    extra="--extra $layer"
    [ $layer = user ] && extra=
    skipped=$([ -z "$below" ] || sed -n 's/^\([a-z0-9.-]*\)==.*/--no-emit-package \1/p' $below)
    constraints=$(for file in $below; do echo "--constraint $file"; done)
    # shellcheck disable=SC2086 # several words on purpose
    lock $layer pyproject.toml $extra $constraints $skipped
    below="$below requirements/$layer.txt"
done
echo 'litellm[proxy]>=1.106' | lock interop -
