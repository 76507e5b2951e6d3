#!/usr/bin/env bash
# step.sh NAME COMMAND...: run a command quietly. Success is one line with its seconds; failure shows all it printed.
# Exit code 77 means "skipped" (as in automake): the last line the command printed is the reason.
set -euo pipefail

name=$1
shift
mkdir -p build/logs
log=build/logs/$(printf '%s' "$name" | tr -c 'A-Za-z0-9' '-').log

status=0
TIMEFORMAT=%1R
seconds=$({ time "$@" >"$log" 2>&1; } 2>&1) || status=$?

case $status in
  0) printf '  ok    %-36s %6s s\n' "$name" "$seconds" ;;
  77) printf '  skip  %-36s %s\n' "$name" "$(tail -n 1 "$log")" ;;
  *)
    cat "$log"
    printf '  FAIL  %-36s %6s s   exit %s: %s\n' "$name" "$seconds" "$status" "$*"
    exit "$status"
    ;;
esac
