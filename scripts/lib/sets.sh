# shellcheck shell=bash
# What is done with a set of servers, whichever it is. Needs the other files of this folder.
#
# scripts/sets/NAME.sh is a set. It is sourced in a subshell of its own, with $set (its name), $dir (its folder for
# configuration, data and logs) and $base (its first port) at hand, and says:
#
#   offset=N       its first port's distance from RMQDEDUP_PORT_BASE; ten or more apart from the others'
#   address=NAME   the variable by which a user names a server of his own instead of these
#   packages       prints the Debian packages that are missing
#   version        prints what it is, with its version, for the output of a test run
#   servers        prints a line a server, in the order of their start: its name, and the ports it takes
#   start          launches those servers that do not run
#   ready NAME     succeeds when that server can be used; called again and again, so it should be quick
#   variables      prints NAME=value lines, unquoted, for tests and examples
#
# and, where it needs them:
#
#   by_name=1      not one of the sets that are meant when no set is named, unless it has been started by its name
#   ended          removes what should not outlast the servers; called when all of them have ended
#
# A further set, a database say, is one more file there.

all_sets() { (cd "$root/scripts/sets" && ls -- *.sh) | sed 's/\.sh$//'; }

# meant_sets: those that are meant when none is named.
meant_sets() {
  local set
  for set in $(all_sets); do
    if (enter "$set" && [[ ! $by_name || -e $dir/base ]]); then echo "$set"; fi
  done
}

# enter SET: makes it the current set. Call it in a subshell, since every set's functions have the same names.
enter() {
  set=$1 dir=$local_dir/servers/$1
  local own=RMQDEDUP_PORT_${1^^} port_base=${RMQDEDUP_PORT_BASE:-21000}
  own=${own//-/_} by_name=
  # shellcheck disable=SC2317 # a set that has something to remove says so
  ended() { :; }
  # shellcheck source=/dev/null
  source "$root/scripts/sets/$set.sh"
  [[ $port_base =~ ^[0-9]+$ ]] || die "RMQDEDUP_PORT_BASE is $port_base, which is not a port"
  [[ ${!own:-0} =~ ^[0-9]+$ ]] || die "$own is ${!own}, which is not a port"
  base=${!own:-$((port_base + offset))} wanted_base=
  # Servers that run stay where they are, whatever the environment of this call says.
  if any_running && [[ -s $dir/base ]]; then
    [[ ! ${!own:-}${RMQDEDUP_PORT_BASE:-} ]] || wanted_base=$base
    base=$(< "$dir/base")
  fi
}

begin_start() {
  [[ ! $wanted_base || $wanted_base == "$base" ]] ||
    die "$set: runs on the ports from $base on, not $wanted_base: $0 down $set first"
  mkdir -p "$dir"
  echo "$base" > "$dir/base"
  start
}

finish_start() {
  local name ports=()
  for name in $(names); do
    await "$name" 120
    ports+=("$name 127.0.0.1:$(ports_of "$name" | cut -d' ' -f1)")
  done
  say "$set ($(version)): $(printf '%s, ' "${ports[@]}" | sed 's/, $//')"
}

begin_end() {
  local name
  [[ -e $dir/base ]] || say "$set: not running"
  for name in $(names | tac); do ask_to_end "$name"; done
}

finish_end() {
  local name
  for name in $(names | tac); do see_end "$name"; done
  ended
  [[ ! -e $dir/base ]] || say "$set: stopped"
  rm -f "$dir/base"
}

# report: a line a server; fails unless every one can be used.
report() {
  local name state pid bad=0
  for name in $(names); do
    state='not running' pid=-
    if pid=$(pid_of "$name"); then
      if ready "$name"; then state=up; else state='not ready'; fi
    fi
    [[ $state == up ]] || bad=1
    printf '%-15s %-11s %-12s %-6s pid %s\n' "$set" "$name" "$state" "$(ports_of "$name" | cut -d' ' -f1)" "${pid:--}"
  done
  return "$bad"
}

# tell: the set's variables, quoted for a shell. None of a set that does not run: a test that finds the variable unset says
# which server it misses, one that finds it set wrongly only says "connection refused".
tell() {
  any_running || { say "$set: not running"; return; }
  local line
  while IFS= read -r line; do
    printf "%s='%s'\n" "${line%%=*}" "${line#*=}"
  done < <(variables)
}

# foreign: the user has named a server of his own in place of this set.
foreign() {
  [[ ${!address:-} ]] || return 1
  ! variables | grep -qxF -- "$address=${!address}" || return 1
  say "$set: not started, $address names another"
}

# show_logs: the files, since which of them tells what happened is for the reader to find out: tail -F $(make -s logs)
show_logs() { [[ ! -d $dir ]] || find "$dir" -name store -prune -o -name '*.log' -print | sort; }

# One at a time changes what runs: two builds of one checkout would start everything twice.
lock() {
  mkdir -p "$local_dir"
  exec {lock_fd}> "$local_dir/servers.lock"
  flock -n "$lock_fd" || {
    say "waiting for another servers.sh of this checkout"
    flock -w 600 "$lock_fd" || die "another servers.sh has held $local_dir/servers.lock for ten minutes"
  }
}

unlock() { exec {lock_fd}>&-; }
