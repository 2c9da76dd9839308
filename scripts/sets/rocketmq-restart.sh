# shellcheck shell=bash
# A RocketMQ for tests that stop its broker, kill it and start it again, which those who use the other one meanwhile would not like.

# shellcheck source=scripts/sets/rocketmq.sh
source "$root/scripts/sets/rocketmq.sh"

offset=90
address=RMQDEDUP_RESTARTABLE

# Its delay levels are those of the other one, which says them.
variables() { echo "RMQDEDUP_RESTARTABLE=127.0.0.1:$base"; }
