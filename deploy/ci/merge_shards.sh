#!/bin/sh
# Merge the shards in a folder, judge the run against the main branch, and keep the comment up to date.
# Exits as merge_evals does. A comment that cannot be written is reported and decides nothing.
set -eu
here=$(dirname "$0")
folder=${DEVUI_FOLDER:-devui-evals}
baseline="$folder/baseline.sqlite3" summary="$folder/summary.md"
mkdir -p "$folder"
rm -f "$folder/merging.sqlite3" "$folder/merged.sqlite3" "$baseline" "$summary"

set -- "$folder"/shard-*.sqlite3
if [ -n "${GITHUB_ACTIONS:-}${GITLAB_CI:-}" ]; then
    python3 "$here/forges.py" baseline "$baseline" || exit 2
fi
if [ -f "$baseline" ]; then
    DATABASE_URL="sqlite:///$baseline" devui migrate --verbosity 0
    set -- "$@" "$baseline"
fi

status=0
DATABASE_URL="sqlite:///$folder/merging.sqlite3" devui merge_evals "$@" \
    --baseline previous --allow-no-baseline --fail-on "${DEVUI_FAIL_ON:-regression}" \
    --markdown "$summary" --junit "$folder/junit.xml" --html "$folder/report.html" \
    >"$folder/merge.log" 2>&1 || status=$?
cat "$folder/merge.log"
if [ "$status" -le 1 ] && [ -s "$summary" ]; then
    mv "$folder/merging.sqlite3" "$folder/merged.sqlite3"
else # indented lines are code, in which a forge interprets nothing
    printf '### Evals could not be merged\n\n' >"$summary"
    head -c 20000 "$folder/merge.log" | tr '\r' ' ' | sed 's/^/    /' >>"$summary"
fi

if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$summary" >>"$GITHUB_STEP_SUMMARY"
fi
if [ -n "${DEVUI_PULL_REQUEST:-}${CI_MERGE_REQUEST_IID:-}" ]; then
    python3 "$here/forges.py" comment "$summary" || true
fi
exit "$status"
