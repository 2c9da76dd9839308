# shellcheck shell=bash
# One MariaDB.

offset=40
address=RMQDEDUP_MARIADB

# shellcheck source=scripts/lib/mysql.sh
source "$root/scripts/lib/mysql.sh"

servers() { echo "mariadb $base"; }

packages() { lacks mariadbd mariadb-server; }

version() { mariadb_version; }

start() {
  ! running mariadb || return 0
  local options
  echo "$accounts" > "$dir/init.sql"
  mariadb_data mariadb "--user=$(id -un)"
  mapfile -t options < <(common_options mariadb)
  launch mariadb mariadbd --no-defaults "--user=$(id -un)" "${options[@]}"
}

ready() { [[ "$(mariadb --no-defaults -h 127.0.0.1 -P "$base" -u root --connect-timeout=2 -N -e 'SELECT 1' test 2> /dev/null)" == 1 ]]; }

variables() { echo "RMQDEDUP_MARIADB=mysql://root@127.0.0.1:$base/test"; }
