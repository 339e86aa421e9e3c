#!/bin/sh
# The tests' own Python environment: venv.sh BUILD makes BUILD/venv with what tests/requirements.txt names. Does
# nothing where it is there and nothing has changed.
set -eu
cd "$(dirname "$0")/.."
venv=$1/venv
cmp -s tests/requirements.txt "$venv/requirements.txt" && exit 0
/usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check -r tests/requirements.txt
cp tests/requirements.txt "$venv/requirements.txt"
