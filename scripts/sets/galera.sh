# shellcheck shell=bash
# A MariaDB Galera cluster of three nodes, each of which takes writes.

offset=60
address=RMQDEDUP_GALERA
by_name=1

# shellcheck source=scripts/lib/mysql.sh
source "$root/scripts/lib/mysql.sh"

# As root the transfer of the data to a node that joins fails: rsync's receiver gives its rights up. As the user mysql the nodes need a
# folder that this user can reach, which a checkout need not be.
data=/var/tmp/rmqdedup-galera-$(cksum <<< "$dir" | cut -d' ' -f1)

# A node takes a port for clients, and four for the other nodes.
servers() {
  local n
  for n in 1 2 3; do
    echo "node-$n $((base + n)) $((base + 5 + 5 * n)) $((base + 6 + 5 * n)) $((base + 7 + 5 * n)) $((base + 8 + 5 * n))"
  done
}

packages() {
  lacks mariadbd mariadb-server
  lacks rsync rsync
  [[ -e /usr/lib/galera/libgalera_smm.so ]] || echo galera-4
}

version() { echo "$(mariadb_version), Galera"; }

start() {
  [[ $EUID == 0 ]] || die "$set: its nodes run as the user mysql, which takes root"
  any_running || rm -rf "$data" # after a crash nobody would know which node was the last
  mkdir -p "$data"
  echo "$accounts" > "$data/init.sql"
  chown -R mysql "$data"
  # The first one founds the cluster, unless others are there.
  local n others bootstrap=1
  ! any_running || bootstrap=
  for n in 1 2 3; do
    others=$(servers | awk -v me="node-$n" '$1 != me { print "127.0.0.1:" $3 }' | paste -sd,)
    [[ $n != 1 || ! $bootstrap ]] || others=''
    launch_node "$n" "gcomm://$others"
    await "node-$n" 120 # one joins after the other
  done
}

launch_node() {
  local name=node-$1 port
  ! running "$name" || return 0
  port=$(ports_of "$name" | cut -d' ' -f2)
  (dir=$data mariadb_data "$name" --user=mysql)
  launch "$name" mariadbd --no-defaults --user=mysql "--datadir=$data/$name" "--port=$(ports_of "$name" | cut -d' ' -f1)" \
    "--socket=$(socket_of "$name")" --bind-address=127.0.0.1 --skip-name-resolve --max-connections=300 --innodb-buffer-pool-size=64M \
    "--init-file=$data/init.sql" --binlog-format=ROW --innodb-autoinc-lock-mode=2 --wsrep-on=1 --wsrep-provider=/usr/lib/galera/libgalera_smm.so \
    --wsrep-cluster-name=rmqdedup "--wsrep-cluster-address=$2" "--wsrep-node-name=$name" "--wsrep-node-address=127.0.0.1:$port" \
    --wsrep-sst-method=rsync "--wsrep-sst-receive-address=127.0.0.1:$((port + 3))" \
    "--wsrep-provider-options=base_port=$port;gmcast.listen_addr=tcp://127.0.0.1:$port;ist.recv_addr=127.0.0.1:$((port + 2));gcache.size=32M"
}

ready() {
  mariadb --no-defaults -h 127.0.0.1 -P "$(ports_of "$1" | cut -d' ' -f1)" -u root --connect-timeout=2 -N \
    -e "SHOW STATUS LIKE 'wsrep_local_state_comment'" test 2> /dev/null | grep -q Synced
}

ended() { rm -rf "$data"; }

variables() {
  echo "RMQDEDUP_GALERA=$(servers | awk '{ print "mysql://root@127.0.0.1:" $2 "/test" }' | paste -sd,)"
}
