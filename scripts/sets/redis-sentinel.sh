# shellcheck shell=bash
# A master and a replica, watched by three Sentinels.

offset=30
address=RMQDEDUP_REDIS_SENTINEL

# shellcheck source=scripts/lib/redis.sh
source "$root/scripts/lib/redis.sh"

master_name=rmqdedup

# In the order of their start; down goes the other way, so that no Sentinel sees its master go and elects another.
servers() {
  echo "data-1 $base"
  echo "data-2 $((base + 1))"
  for n in 1 2 3; do echo "sentinel-$n $((base + 4 + n))"; done
}

start() {
  # A file that Sentinel has rewritten says who is master after a failover, so a server that comes back among running ones
  # keeps it.
  if ! any_running; then
    write_conf data-1 "$(store_conf)" 'repl-diskless-sync-delay 0'
    write_conf data-2 "$(store_conf)" 'repl-diskless-sync-delay 0' "replicaof 127.0.0.1 $base"
    local n
    for n in 1 2 3; do
      write_conf "sentinel-$n" "sentinel monitor $master_name 127.0.0.1 $base 2" \
        "sentinel down-after-milliseconds $master_name 3000" "sentinel failover-timeout $master_name 10000"
    done
  fi
  launch_redis data-1
  launch_redis data-2
  for n in 1 2 3; do launch_redis "sentinel-$n" --sentinel; done
}

ready() {
  local role master
  case $1 in
    # A master that was away while another was elected still calls itself one for some seconds.
    data-*)
      role=$(ask "$1" role)
      master=$(ask sentinel-1 sentinel get-master-addr-by-name "$master_name" | tail -n 1)
      [[ $role == slave*connected* || ($role == master* && $master == "$(ports_of "$1")") ]]
      ;;
    # OK only when a majority could elect, and with all three in it; they find each other within two seconds.
    sentinel-*) [[ $(ask "$1" sentinel ckquorum "$master_name") == "OK 3 "* && $(ask "$1" sentinel replicas "$master_name") ]] ;;
  esac
}

variables() {
  echo "RMQDEDUP_REDIS_SENTINEL=redis+sentinel://127.0.0.1:$((base + 5))/0?master_name=$master_name&addr=127.0.0.1:$((base + 6))&addr=127.0.0.1:$((base + 7))"
}
