# shellcheck shell=bash
# Starting, finding and ending the servers of one set. Needs common.sh and ports.sh, and $set, $dir and the functions of
# the set (see servers.sh).
#
# $dir/NAME.pid has two lines: the process id, and the command line it was started with. A process counts as ours only while
# its command line is exactly that one, so that an id which has since been given to somebody else's process is left alone.

# pid_of NAME: prints the process id; fails when that server does not run.
pid_of() {
  local pid command
  [[ -s $dir/$1.pid ]] || return 1
  { IFS= read -r pid && IFS= read -r command; } < "$dir/$1.pid" || return 1
  [[ "$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline")" == "$command " ]] 2> /dev/null || return 1
  echo "$pid"
}

running() { pid_of "$1" > /dev/null; }

names() { servers | cut -d' ' -f1; }

any_running() {
  local name
  for name in $(names); do ! running "$name" || return 0; done
  return 1
}

# ports_of NAME: the ports that the server takes; the first is the one its clients use.
ports_of() { servers | sed -n "s/^$1 //p"; }

# launch NAME COMMAND...: starts a server in the background, unless it runs already.
launch() {
  local name=$1 log=$dir/$1.log port pid
  shift
  ! running "$name" || return 0
  for port in $(ports_of "$name"); do
    ! listener "$port" > /dev/null ||
      die "$set: $name needs port $port, which is taken by $(port_user "$port")
RMQDEDUP_PORT_BASE=N moves all servers to the ports from N on; $0 free-base finds an N."
  done
  [[ ! -s $log ]] || mv "$log" "$log.1" # what the last run said may be what somebody is looking for
  (
    cd "$dir" || exit
    # A server must not hold what was open in the shell that started it: a CI job would wait for its own output to be
    # closed for ever, and the lock of servers.sh would never be given back. 255 is bash's own and closes by itself.
    for fd in /proc/"$BASHPID"/fd/*; do
      fd=${fd##*/}
      ((fd <= 2 || fd == 255)) || eval "exec $fd>&-"
    done
    exec setsid "$@" < /dev/null > "$log" 2>&1 # a session of its own: no Ctrl-C or hang-up of ours reaches it
  ) &
  pid=$!
  printf '%s\n%s\n' "$pid" "$*" > "$dir/$name.pid"
  # Until the child has become the server its command line is still ours.
  for ((i = 0; i < 100; i++)); do
    ! running "$name" && kill -0 "$pid" 2> /dev/null || break
    sleep 0.02
  done
}

# await NAME SECONDS: waits until the server can be used.
await() {
  local deadline=$((SECONDS + $2))
  until running "$1" && ready "$1"; do
    running "$1" || failed "$1" "ended by itself"
    ((SECONDS < deadline)) || failed "$1" "runs, but could not be used after $2 seconds"
    sleep 0.1
  done
}

# failed NAME WHAT: says which server failed, how it failed, and where to read on.
failed() {
  say "$set: $1 $2. The end of its log:"
  tail -n 20 "$dir/$1.log" 2> /dev/null | sed 's/^/    /' >&2
  die "$set: all of it: $dir/$1.log"
}

# ask_to_end NAME, see_end NAME: the first only asks, so that servers that take their time take it together; the second
# waits until the server has ended.
ask_to_end() {
  local pid
  ! pid=$(pid_of "$1") || kill "$pid"
}

see_end() {
  local pid deadline=$((SECONDS + 40)) # a broker needs about 15 seconds
  while pid=$(pid_of "$1"); do
    if ((SECONDS >= deadline)); then
      say "$set: $1 did not end by itself, killing it"
      kill -KILL "$pid"
      deadline=$((SECONDS + 40))
    fi
    sleep 0.1
  done
  rm -f "$dir/$1.pid"
}
