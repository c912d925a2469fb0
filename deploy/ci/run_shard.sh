#!/bin/sh
# Run one shard in an empty store. The arguments of run_evals are in DEVUI_EVALS, the shard in DEVUI_SHARD (i/n).
set -euf
here=$(dirname "$0")
folder=${DEVUI_FOLDER:-devui-evals}
shard=${DEVUI_SHARD:-${CI_NODE_INDEX:-1}/${CI_NODE_TOTAL:-1}}
store="$folder/shard-$(printf %s "$shard" | tr / -).sqlite3"
if [ "${DEVUI_LOCK:-}" != "$store.lock" ]; then
    exec python3 "$here/lock.py" "$store.lock" sh "$0"
fi
rm -f "$store"
# shellcheck disable=SC2086 # several arguments
DATABASE_URL="sqlite:///$store" exec devui run_evals ${DEVUI_EVALS:?names the agent and its evalsets} --shard "$shard"
