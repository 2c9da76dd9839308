# shellcheck shell=bash
# A Redis Cluster: three masters, a third of the slots each.

offset=20
address=RMQDEDUP_REDIS_CLUSTER

# shellcheck source=scripts/lib/redis.sh
source "$root/scripts/lib/redis.sh"

# The second port is the bus by which the nodes talk; by default it would be the first plus 10000.
servers() {
  for n in 1 2 3; do echo "node-$n $((base + n)) $((base + 5 + n))"; done
}

start() {
  # What the nodes know of each other is good for bringing one back. When none runs, the cluster is made anew, since the
  # ports may be others.
  any_running || rm -rf "$dir"/node-*
  local name
  for name in $(names); do
    running "$name" || write_conf "$name" "$(store_conf)" 'cluster-enabled yes' "cluster-port $(ports_of "$name" | cut -d' ' -f2)" 'cluster-node-timeout 5000'
    launch_redis "$name"
  done
  for name in $(names); do await_answer "$name"; done
  [[ $(ask node-1 cluster info) != *cluster_slots_assigned:0* ]] || join
}

# await_answer NAME: waits for the process alone; the cluster's own state is ready's business.
await_answer() {
  local i
  for ((i = 0; i < 100; i++)); do
    [[ $(ask "$1" ping) != PONG ]] || return 0
    running "$1" || failed "$1" "ended by itself"
    sleep 0.1
  done
  failed "$1" "did not answer within 10 seconds"
}

# join makes one cluster of three nodes that know nothing yet. By hand, as redis-cli --cluster create does not know of bus
# ports other than the usual.
join() {
  local n first=0 last
  for n in 1 2 3; do
    last=$((16384 * n / 3 - 1))
    ask "node-$n" cluster set-config-epoch "$n" > /dev/null
    ask "node-$n" cluster addslotsrange "$first" "$last" > /dev/null
    first=$((last + 1))
  done
  for n in 2 3; do ask node-1 cluster meet 127.0.0.1 $((base + n)) $((base + 5 + n)) > /dev/null; done
}

ready() {
  local info
  info=$(ask "$1" cluster info) || return 1
  [[ $info == *cluster_state:ok* && $info == *cluster_slots_ok:16384* && $info == *cluster_known_nodes:3* ]]
}

variables() {
  echo "RMQDEDUP_REDIS_CLUSTER=redis+cluster://127.0.0.1:$((base + 1))?addr=127.0.0.1:$((base + 2))&addr=127.0.0.1:$((base + 3))"
}
