# shellcheck shell=bash
# Where things are and how this project's scripts speak. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
local_dir=$root/.local # everything that is made here; ignored by git, removed by make clean

# Standard output is for answers (env, status, logs); what a person should know goes to standard error.
say() { printf '%s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}
