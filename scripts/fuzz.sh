#!/usr/bin/env bash
# scripts/fuzz.sh TIME - runs every fuzz target of the module for TIME, one after the other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=0
for package in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "$package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$package"
    count=$((count + 1))
  done
done
echo "$count fuzz targets ran for $1 each"
