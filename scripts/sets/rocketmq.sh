# shellcheck shell=bash
# An Apache RocketMQ name server and one broker, from their Maven artifacts.

offset=0
address=RMQDEDUP_NAMESRV

jars=$local_dir/rocketmq # filled by fetch_jars

# One level a second, since the broker's own (1s 5s 10s 30s 1m … 2h) let a message that is retried a few times wait for
# minutes. Tests that compute with delay levels read them from RMQDEDUP_DELAY_LEVELS.
delay_levels='1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s 12s 13s 14s 15s 16s 17s 18s'

# A broker also takes the ports two below (clients that are served first) and one above (replication) its own.
servers() {
  echo "namesrv $base"
  echo "broker $((base + 5)) $((base + 3)) $((base + 6))"
}

packages() {
  find_java > /dev/null || echo openjdk-17-jre-headless
  have_jars || lacks mvn maven
}

version() { sed -n 's|.*<rocketmq.version>\(.*\)</rocketmq.version>.*|RocketMQ \1|p' "$jars/pom.xml"; }

# find_java: prints the path of a Java of version 17 or later.
find_java() {
  local java version
  for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
    [[ -x $java ]] || continue
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    ((${version:-0} < 17)) || { echo "$java"; return; }
  done
  return 1
}

# The file of the versions is part of what was fetched, so that a change of it fetches anew.
have_jars() { cmp -s "$root/scripts/sets/rocketmq-pom.xml" "$jars/pom.xml"; }

fetch_jars() {
  ! have_jars || return 0
  say "$set: fetching RocketMQ with Maven (once, about 100 MB)"
  rm -rf "$jars"
  mkdir -p "$jars"
  local log=$local_dir/maven.log
  JAVA_HOME='' mvn -q -B -f "$root/scripts/sets/rocketmq-pom.xml" dependency:copy-dependencies -DoutputDirectory="$jars" > "$log" 2>&1 < /dev/null || {
    tail -n 20 "$log" >&2
    die "$set: Maven failed; all of its output: $log"
  }
  cp "$root/scripts/sets/rocketmq-pom.xml" "$jars/pom.xml" # last: its presence says that the rest is complete
}

# java_command MAIN-CLASS OPTION...: fills the array command. What the programs want to write goes below user.home.
java_command() {
  command=("$(find_java)" "-Duser.home=$dir" "-Drocketmq.home.dir=$dir"
    "-Drmq.logback.configurationFile=$root/scripts/sets/rocketmq-logback.xml" "${@:2}" -cp "$jars/*" "$1")
}

start() {
  fetch_jars
  local command
  unset NAMESRV_ADDR # the environment would win over the files below
  printf '%s\n' "listenPort=$base" bindAddress=127.0.0.1 > "$dir/namesrv.conf"
  write_broker_conf
  # TLS, which nobody asks for here, costs each of them three seconds for making a certificate.
  java_command org.apache.rocketmq.namesrv.NamesrvStartup -Dtls.server.mode=disabled -Xms64m -Xmx256m
  launch namesrv "${command[@]}" -c "$dir/namesrv.conf"
  await namesrv 60 # a broker that finds none tries again only much later
  # The broker maps its files and reaches below the JDK's published interfaces to unmap them.
  java_command org.apache.rocketmq.broker.BrokerStartup -Dtls.server.mode=disabled -Xms256m -Xmx768m -XX:MaxDirectMemorySize=512m \
    --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED --add-exports=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED
  launch broker "${command[@]}" -c "$dir/broker.conf"
}

write_broker_conf() {
  cat > "$dir/broker.conf" << END
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
listenPort=$((base + 5))
bindAddress=127.0.0.1
namesrvAddr=127.0.0.1:$base
registerNameServerPeriod=10000
storePathRootDir=$dir/store
autoCreateTopicEnable=true
messageDelayLevel=$delay_levels
# Small files: a test machine has neither the disk nor the need for the gigabytes of the defaults.
mappedFileSizeCommitLog=67108864
diskMaxUsedSpaceRatio=99
# Two busy cores may let a request wait; the defaults (200 ms, 1 s) answer "broker busy" then.
waitTimeMillsInSendQueue=5000
osPageCacheBusyTimeOutMills=5000
END
}

ready() {
  case $1 in
    namesrv) remoting_call "$base" 106 > /dev/null ;; # GET_BROKER_CLUSTER_INFO
    # The broker answers (GET_BROKER_CONFIG), and the name server knows it, so that a client finds it.
    broker)
      remoting_call $((base + 5)) 26 > /dev/null || return 1
      ! known || return 0
      # A broker that has not reached the name server yet when it comes to registering does so 10 seconds later. Being told
      # its permission (UPDATE_BROKER_CONFIG), which is as it was, it registers at once.
      remoting_call $((base + 5)) 25 brokerPermission=6 > /dev/null && known
      ;;
  esac
}

known() { remoting_call "$base" 106 | grep -q "127.0.0.1:$((base + 5))"; }

# remoting_call PORT CODE [BODY]: one request in RocketMQ's own protocol, its answer printed. Starting mqadmin's JVM for the
# same takes two seconds, and an open port says little: the broker's opens before the broker serves.
# A frame is: length of the rest, length of the header, header in JSON, body; both lengths are four bytes, the highest first.
remoting_call() {
  local header length body=${3:-}
  header='{"code":'$2',"flag":0,"language":"OTHER","version":0,"opaque":1,"serializeTypeCurrentRPC":"JSON"}'
  (
    exec 3<> "/dev/tcp/127.0.0.1/$1" || exit 1
    # shellcheck disable=SC2059 # the format is the frame, and its escapes are meant
    printf "\\0\\0\\0\\x$(printf %x $((4 + ${#header} + ${#body})))\\0\\0\\0\\x$(printf %x ${#header})%s" "$header$body" >&3
    length=$(timeout 2 head -c 4 <&3 | od -An -tu1 | awk 'NF == 4 { print (($1 * 256 + $2) * 256 + $3) * 256 + $4 }')
    [[ $length ]] || exit 1
    timeout 2 head -c "$length" <&3 | tr -d '\0'
  ) 2> /dev/null
}

variables() {
  echo "RMQDEDUP_NAMESRV=127.0.0.1:$base"
  echo "RMQDEDUP_DELAY_LEVELS=$delay_levels"
}
