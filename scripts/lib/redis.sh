# shellcheck shell=bash
# What the sets redis, redis-cluster and redis-sentinel have in common.

packages() { lacks redis-server redis-server; }

version() { redis-server --version | sed 's/.* v=\([^ ]*\).*/Redis \1/'; }

# write_conf NAME LINE...: a configuration file for one server of the set. A file of its own for each, since Sentinel
# rewrites it.
write_conf() {
  local name=$1 port
  port=$(ports_of "$name" | cut -d' ' -f1)
  shift
  mkdir -p "$dir/$name"
  {
    echo "bind 127.0.0.1"
    echo "port $port"
    echo "dir $dir/$name"
    echo "set-proc-title no" # the process keeps the command line by which it is recognised
    printf '%s\n' "$@"
  } > "$dir/$name.conf"
}

# store_conf: settings of the servers that hold data. Nothing is saved, a restart is an empty server. noeviction is what a
# state table needs: a key that Redis throws away under memory pressure is a message that runs twice.
store_conf() {
  printf '%s\n' 'save ""' 'appendonly no' 'maxmemory-policy noeviction'
}

launch_redis() { launch "$1" redis-server "$dir/$1.conf" "${@:2}"; }

# ask NAME COMMAND...: one command to one server, answered within two seconds or not at all.
ask() {
  local port
  port=$(ports_of "$1" | cut -d' ' -f1)
  timeout 2 redis-cli -h 127.0.0.1 -p "$port" "${@:2}" 2> /dev/null
}
