#!/bin/sh
# Merge the shards in a folder, judge the run against earlier runs of the base branch, and keep the comment up to date.
# Exits as merge_evals does; 3 also if there should be earlier runs and they cannot be used. A comment that cannot be
# written is reported and decides nothing.
set -eu
here=$(dirname "$0")
folder=${DEVUI_FOLDER:-devui-evals}
if [ "${DEVUI_LOCK:-}" != "$folder/merge.lock" ]; then
    exec python3 "$here/lock.py" "$folder/merge.lock" sh "$0"
fi
store="$folder/merging.sqlite3" merged="$folder/merged.sqlite3" baseline="$folder/baseline.sqlite3"
summary="$folder/summary.md" junit="$folder/junit.xml" report="$folder/report.html"
rm -f "$store" "$merged" "$baseline" "$summary" "$junit" "$report"

set -- "$folder"/shard-*.sqlite3
if [ -n "${GITHUB_ACTIONS:-}${GITLAB_CI:-}" ]; then
    if found=$(python3 "$here/forges.py" baseline "$baseline"); then
        echo "$found"
        if [ -f "$baseline" ]; then # merge_evals says what is wrong with it
            DATABASE_URL="sqlite:///$baseline" devui migrate --verbosity 0 >/dev/null 2>&1 || :
            set -- "$@" --earlier "$baseline"
        fi
    else
        set -- "$@" --not-compared "${found:-The baseline was not fetched, as the log of the build tells.}"
    fi
fi
if [ -n "${DEVUI_CONFIRM:-}" ]; then
    set -- "$@" --confirm "$DEVUI_CONFIRM" ${DEVUI_AGENTS:+--agents "$DEVUI_AGENTS"}
fi

# in the background, because a shell handles signals only while it waits
DATABASE_URL="sqlite:///$store" devui merge_evals "$@" \
    --baseline previous --allow-no-baseline --fail-on "${DEVUI_FAIL_ON:-regression}" \
    --markdown "$summary" --junit "$junit" --html "$report" \
    >"$folder/merge.log" 2>&1 &
merging=$!
trap 'kill -TERM "$merging" 2>/dev/null || :' INT TERM
status=0
wait "$merging" || status=$?
while kill -0 "$merging" 2>/dev/null; do
    status=0
    wait "$merging" || status=$?
done
cat "$folder/merge.log"

if [ -s "$summary" ]; then
    mv "$store" "$merged"
else # indented lines are code, in which a forge interprets nothing
    printf '### Evals could not be merged\n\n' >"$summary"
    head -c 20000 "$folder/merge.log" | tr '\r' ' ' | sed 's/^/    /' >>"$summary"
    [ "$status" -gt 1 ] || status=2
fi

if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$summary" >>"$GITHUB_STEP_SUMMARY"
fi
if [ -n "${DEVUI_PULL_REQUEST:-}${CI_MERGE_REQUEST_IID:-}" ]; then
    python3 "$here/forges.py" comment "$summary" || :
fi
exit "$status"
