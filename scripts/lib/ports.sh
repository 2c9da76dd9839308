# shellcheck shell=bash
# Who listens where, read from /proc, so that no further package is needed. Needs common.sh.

# listener PORT: prints the inode of the socket that listens on the port; fails when there is none.
listener() {
  local tables=(/proc/net/tcp)
  [[ ! -e /proc/net/tcp6 ]] || tables+=(/proc/net/tcp6)
  awk -v port="$(printf ':%04X' "$1")" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10; found = 1; exit } END { exit !found }' "${tables[@]}"
}

# port_user PORT: names the process that listens on the port.
port_user() {
  local inode fd pid
  inode=$(listener "$1") || { echo "nobody any more"; return; }
  fd=$(find /proc/[0-9]*/fd -lname "socket:\[$inode\]" -print -quit 2> /dev/null) || true
  [[ $fd ]] || { echo "a process that cannot be seen from here (another user's or another container's)"; return; }
  pid=${fd#/proc/} pid=${pid%%/*}
  printf 'process %s: %.200s\n' "$pid" "$(tr '\0' ' ' < "/proc/$pid/cmdline")"
}

# free_base: prints the first port of a block of a hundred that nobody listens in.
free_base() {
  local try base port used
  for ((try = 0; try < 50; try++)); do
    # By chance, so that two who ask at the same time hardly ever get the same answer. Linux takes the ports of outgoing
    # connections from 32768 upwards, so the blocks end below.
    base=$((22000 + 100 * (RANDOM % 107))) used=
    for ((port = base; port < base + 100; port++)); do
      ! listener "$port" > /dev/null || { used=1; break; }
    done
    [[ $used ]] || { echo "$base"; return; }
  done
  die "no block of 100 free ports found between 22000 and 32700"
}
