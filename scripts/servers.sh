#!/usr/bin/env bash
# The servers that tests and examples use, real ones, on this machine, without containers.
#
#   scripts/servers.sh up     [SET...]           start what does not run yet, and wait until it can be used
#   scripts/servers.sh down   [SET...]           end what was started from this checkout
#   scripts/servers.sh status [SET...]           one line a server
#   scripts/servers.sh env    [SET...]           where the running ones are: eval "$(scripts/servers.sh env)"
#   scripts/servers.sh logs   [SET...]           where the logs are
#   scripts/servers.sh with   [SET...] -- CMD... run CMD with these servers up and named in its environment
#   scripts/servers.sh any    [SET...]           succeed if one of this checkout's servers runs
#   scripts/servers.sh stop|kill SET SERVER      end one server, by SIGTERM or by SIGKILL; up starts it again
#   scripts/servers.sh free-base                 a value for RMQDEDUP_PORT_BASE that nobody uses
#
# A set is a file in scripts/sets; without a name all of them are meant, but galera only once it has been started.
# RMQDEDUP_PORT_BASE (21000) moves all ports, RMQDEDUP_PORT_<SET> those of one set. docs/servers.md has the rest.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/lib/common.sh
source "$scripts/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$scripts/lib/packages.sh"
# shellcheck source=scripts/lib/ports.sh
source "$scripts/lib/ports.sh"
# shellcheck source=scripts/lib/processes.sh
source "$scripts/lib/processes.sh"
# shellcheck source=scripts/lib/sets.sh
source "$scripts/lib/sets.sh"

usage() {
  sed -n '2,/^set -/{s/^# \{0,1\}//p}' "$0"
  printf 'sets: %s\n' "$(all_sets | paste -sd' ')"
}

cmd_up() {
  lock
  local set missing
  missing=$(for set in "${sets[@]}"; do (enter "$set" && packages); done | sort -u)
  # shellcheck disable=SC2086 # names of packages, one or several
  install_packages $missing
  # Each set is begun before the first is waited for, so that the slow ones start while the quick ones do.
  for set in "${sets[@]}"; do (enter "$set" && begin_start); done
  for set in "${sets[@]}"; do (enter "$set" && finish_start); done
}

cmd_down() {
  lock
  local set
  for set in "${sets[@]}"; do (enter "$set" && begin_end); done
  for set in "${sets[@]}"; do (enter "$set" && finish_end); done
}

cmd_end_one() {
  local signal=$1 server=$3
  lock
  enter "$2"
  names | grep -qxF -- "$server" || die "$set has no server $server, but: $(names | paste -sd' ')"
  running "$server" || die "$set: $server does not run"
  kill "-$signal" "$(pid_of "$server")"
  see_end "$server"
}

cmd_status() {
  local set bad=0
  for set in "${sets[@]}"; do (enter "$set" && report) || bad=3; done
  return "$bad"
}

cmd_any() {
  local set
  for set in "${sets[@]}"; do
    if (enter "$set" && any_running); then return 0; fi
  done
  return 1
}

cmd_env() {
  local lines
  lines=$(for set in "${sets[@]}"; do (enter "$set" && tell); done)
  [[ $lines ]] || die "no server runs: $0 up, or make up"
  printf '%s\n' "$lines"
  # Assignments first, for those who read lines; exported last, for those who eval.
  printf 'export %s\n' "$(cut -d= -f1 <<< "$lines" | paste -sd' ')"
}

cmd_logs() {
  local set
  for set in "${sets[@]}"; do (enter "$set" && show_logs); done
}

# A variable that already names a server is somebody's wish to have that one used: its set is neither started nor named.
cmd_with() {
  local set wanted=()
  for set in "${sets[@]}"; do
    if (enter "$set" && foreign); then continue; fi
    wanted+=("$set")
  done
  sets=("${wanted[@]}")
  if ((${#sets[@]})); then
    cmd_up
    unlock
    eval "$(cmd_env)"
  fi
  exec "${command[@]}"
}

main() {
  local verb=${1:-help} sets=() command=()
  (($# == 0)) || shift
  case $verb in
    up | down | status | env | logs | any | with) ;;
    stop | kill)
      (($# == 2)) && [[ -f $scripts/sets/$1.sh ]] || die "usage: $0 $verb SET SERVER"
      if [[ $verb == kill ]]; then verb=KILL; else verb=TERM; fi
      cmd_end_one "$verb" "$@"
      return
      ;;
    free-base) free_base; return ;;
    help | -h | --help) usage; return ;;
    *) usage >&2; exit 2 ;;
  esac
  while (($#)) && [[ $1 != -- ]]; do
    [[ -f $scripts/sets/$1.sh ]] || die "no such set: $1. There are: $(all_sets | paste -sd' ')"
    sets+=("$1")
    shift
  done
  (($# == 0)) || shift
  command=("$@")
  [[ $verb == with ]] || ((${#command[@]} == 0)) || die "$verb takes no command"
  [[ $verb != with ]] || ((${#command[@]})) || die "usage: $0 with [SET...] -- COMMAND..."
  ((${#sets[@]})) || mapfile -t sets < <(meant_sets)
  "cmd_$verb"
}

main "$@"
