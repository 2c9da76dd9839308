#!/usr/bin/env bash
# scripts/bench.sh [FLAG...] - measures the table of docs/performance.md, and keeps it and the raw output; the flags are those of internal/bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=.local/bench
mkdir -p "$dir"
now=$dir/table-$(date +%Y%m%d-%H%M%S)-$(git rev-parse --short HEAD 2> /dev/null || echo new)

go build -o "$dir/bench" ./internal/bench
status=0
"$dir/bench" -o "$now.txt" "$@" | tee "$now.md" || status=$?
if [[ -s $now.md ]]; then
  echo "kept: $now.md, and for benchstat -col /side the raw output: $now.txt" >&2
else
  rm -f "$now.md" # it was broken off
fi
exit "$status"
