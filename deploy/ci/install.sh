#!/bin/sh
# Install DevUI and the packages of the agents: the arguments of pip are in DEVUI_INSTALL.
set -euf
# shellcheck disable=SC2086 # several arguments
exec python3 -m pip install --quiet --disable-pip-version-check ${DEVUI_INSTALL:-devui}
