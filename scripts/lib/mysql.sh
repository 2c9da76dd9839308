# shellcheck shell=bash
# What the sets mysql, mariadb and galera have in common: databases for tests, small, but as durable as by default.

# A test machine has little memory. A benchmark of a large table wants RMQDEDUP_BUFFER_POOL=2G.
buffer_pool=${RMQDEDUP_BUFFER_POOL:-128M}

# Root comes in from this machine without a password. The user pw has one, for those who want to try that.
accounts="
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'pw'@'%' IDENTIFIED BY 'secret';
GRANT ALL ON *.* TO 'pw'@'%';
CREATE DATABASE IF NOT EXISTS test;
"

# common_options NAME: what every server is started with, a line an option.
common_options() {
  printf '%s\n' "--datadir=$dir/$1" "--port=$(ports_of "$1" | cut -d' ' -f1)" "--socket=$(socket_of "$1")" --bind-address=127.0.0.1 \
    --skip-name-resolve --max-connections=300 "--innodb-buffer-pool-size=$buffer_pool" "--init-file=$dir/init.sql"
}

# socket_of NAME: a socket's path has at most 107 characters, which that of a checkout may exceed.
socket_of() { echo "/tmp/rmqdedup-$(cksum <<< "$dir/$1" | cut -d' ' -f1).sock"; }

# Without --no-defaults an option file of this machine would have its say.
mariadb_version() { mariadbd --no-defaults --version | sed 's/.* Ver \([0-9.]*\).*/MariaDB \1/'; }

# serves PORT: the server says hello. An open port is not enough: it opens before init.sql has been read, which
# mysqladmin, for want of the account, would show; a handshake is all that can be had without a client of each kind.
serves() {
  local hello
  hello=$(
    exec 2> /dev/null 3<> "/dev/tcp/127.0.0.1/$1" || exit 1
    timeout 2 head -c 5 <&3 | od -An -tu1 | awk '{ print $5 }'
  )
  [[ $hello == 10 ]] # the version of the protocol; 255 is an error
}

# mariadb_data NAME [OPTION...]: makes the data folder of a MariaDB server, beside its place first, so that one that was
# interrupted is not taken for whole.
mariadb_data() {
  local data=$dir/$1
  [[ ! -d $data/mysql ]] || return 0
  rm -rf "$data" "$data.part"
  mariadb-install-db --no-defaults "--datadir=$data.part" --auth-root-authentication-method=normal --skip-test-db "${@:2}" \
    > "$dir/$1.install.log" 2>&1 < /dev/null || {
    tail -n 20 "$dir/$1.install.log" >&2
    die "$set: mariadb-install-db failed; all of its output: $dir/$1.install.log"
  }
  mv "$data.part" "$data"
}
