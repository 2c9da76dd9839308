#!/usr/bin/env bash
# scripts/bench-go.sh BENCHSTAT COUNT - runs Go's benchmarks and compares them with those of the run before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=.local/bench
mkdir -p "$dir"
before=$(find "$dir" -name 'go-*.txt' | sort | tail -n 1)
now=$dir/go-$(date +%Y%m%d-%H%M%S)-$(git rev-parse --short HEAD 2> /dev/null || echo new).txt

# One package at a time: two that run together on two cores measure each other. A run that is broken off leaves no result
# that the next would be compared with.
go test -run '^$' -bench . -skip 'Size|Large' -benchmem -count "$2" -p 1 -timeout 60m ./rmqdedup/... ./storage/... | tee "$now.part"
mv "$now.part" "$now"
echo "kept in $now"
"$1" ${before:+"$before"} "$now"
