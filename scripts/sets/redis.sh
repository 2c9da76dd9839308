# shellcheck shell=bash
# One Redis.

offset=10
address=RMQDEDUP_REDIS

# shellcheck source=scripts/lib/redis.sh
source "$root/scripts/lib/redis.sh"

servers() { echo "redis $base"; }

start() {
  running redis || write_conf redis "$(store_conf)"
  launch_redis redis
}

ready() { [[ $(ask "$1" ping) == PONG ]]; }

variables() { echo "RMQDEDUP_REDIS=redis://127.0.0.1:$base/0"; }
