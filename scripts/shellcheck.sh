#!/usr/bin/env bash
# scripts/shellcheck.sh - checks every shell script of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v shellcheck > /dev/null; then
  [[ $EUID == 0 ]] && command -v apt-get > /dev/null || {
    echo "shellcheck is not installed; the shell scripts stay unchecked" >&2
    exit 0
  }
  scripts/need.sh shellcheck:shellcheck
fi

# SC2034, SC2154: the files in scripts/lib and scripts/sets set variables for one another (lib/sets.sh says which), and
# each is read by itself.
# SC2015: "a && b || c" is used where c is meant for both.
shellcheck -x -e SC2034,SC2154,SC2015 scripts/*.sh scripts/lib/*.sh scripts/sets/*.sh .ci/run
