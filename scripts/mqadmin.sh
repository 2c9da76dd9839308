#!/usr/bin/env bash
# scripts/mqadmin.sh ARGUMENT... - RocketMQ's administration tool, from the same artifacts as the broker:
#
#   scripts/mqadmin.sh clusterList
#   scripts/mqadmin.sh resetOffsetByTime -g GROUP -t TOPIC -s -1
#
# It asks the name server that RMQDEDUP_NAMESRV names, else the one of scripts/servers.sh, else what -n says.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
for file in common packages ports processes sets; do
  # shellcheck source=/dev/null
  source "$scripts/lib/$file.sh"
done

enter rocketmq
mapfile -t missing < <(packages)
install_packages "${missing[@]}"
(lock && fetch_jars)
mkdir -p "$dir"
java_command org.apache.rocketmq.tools.command.MQAdminStartup -Xmx256m -Drmq.log.level=WARN
export NAMESRV_ADDR=${RMQDEDUP_NAMESRV:-127.0.0.1:$base}
exec "${command[@]}" "$@"
