#!/bin/sh
# Install DevUI from the wheel beside this script, and what the arguments of pip in DEVUI_INSTALL name: packages of the
# agents, or DevUI as the path or URL (with #sha256=…) of a wheel.
set -eu
here=$(dirname "$0")
set -- "$here"/devui-*.whl
if [ "$#" -gt 1 ]; then
    echo "$here has $# wheels of DevUI: $*. Keep one." >&2
    exit 2
fi
[ -f "$1" ] || set --
set -f
# shellcheck disable=SC2086 # several arguments
set -- "$@" ${DEVUI_INSTALL:-}
if [ "$#" -eq 0 ]; then
    echo "DevUI is not on PyPI: put its wheel (make dist) into $here, or set DEVUI_INSTALL to the path or URL of one." >&2
    exit 2
fi
exec python3 -m pip install --quiet --disable-pip-version-check "$@"
