# shellcheck shell=bash
# One MySQL, of the newest release that Debian packages: its unstable suite has it. The packages are unpacked into a folder
# of our own, with the C library that they need, and run by the loader that is among them. Nothing of this machine's own
# packages, sources or users is touched.

offset=50
address=RMQDEDUP_MYSQL

# shellcheck source=scripts/lib/mysql.sh
source "$root/scripts/lib/mysql.sh"

program=$local_dir/mysql # filled by fetch_program

servers() { echo "mysql $base"; }

packages() { :; }

version() { cat "$program/version"; }

# mysqld_command OPTION...: fills the array command.
mysqld_command() {
  local lib=$program/usr/lib/x86_64-linux-gnu
  command=(env -u LD_PRELOAD -u LD_LIBRARY_PATH LC_ALL=C "$program/usr/lib64/ld-linux-x86-64.so.2" --library-path "$lib" "$program/usr/sbin/mysqld" --no-defaults
    "--user=$(id -un)" "--basedir=$program/usr" "--lc-messages-dir=$program/usr/share/mysql"
    "--character-sets-dir=$program/usr/share/mysql/charsets" "--plugin-dir=$program/usr/lib/mysql/plugin" --secure-file-priv=NULL "$@")
}

# mirror: where this machine's own packages come from.
mirror() {
  local codename
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  # shellcheck disable=SC2016 # apt fills these in
  apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(SITE)' 'Created-By: Packages' |
    awk -v codename="$codename" '($1 == codename || $1 == "stable") && $2 == "main" && $3 ~ "/debian(/|$)" && !found { print $3; found = 1 }'
}

# own_apt COMMAND...: apt-get with lists, cache and a list of installed packages of its own.
own_apt() {
  apt-get -qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/none" -o "Dir::Etc::preferences=$apt/none/p" \
    -o "Dir::Etc::preferencesparts=$apt/none" -o "Dir::State=$apt/state" -o "Dir::State::status=$apt/state/status" -o "Dir::Cache=$apt/cache" \
    -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Acquire::Languages=none -o Acquire::Retries=3 \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false "$@"
}

fetch_program() {
  [[ ! -s $program/version || ! -d $program/usr ]] || return 0
  [[ $EUID == 0 && $(dpkg --print-architecture 2> /dev/null) == amd64 ]] ||
    die "$set: unpacking MySQL takes root on Debian for amd64. Or start a MySQL in your own way, and say where: $address=mysql://user:password@host:port/database"
  local where
  where=$(mirror)
  [[ $where ]] || die "$set: there is no Debian mirror in this machine's apt sources"
  say "$set: fetching MySQL from Debian's unstable suite (once, about 50 MB)"
  rm -rf "$program" "$program.part"
  (unpack_program "$where") > "$local_dir/mysql.log" 2>&1 < /dev/null || {
    tail -n 20 "$local_dir/mysql.log" >&2
    die "$set: MySQL could not be fetched; all of the output: $local_dir/mysql.log"
  }
  mv "$program.part" "$program"
  local command
  mysqld_command --version
  "${command[@]}" | sed 's/.* Ver \([^ ]*\).*/MySQL \1/' > "$program/version" # last: it says that the rest is complete
}

# Runs as a condition, where bash knows no set -e: whatever may fail says so itself.
unpack_program() {
  local into=$program.part apt=$program.part/apt each
  mkdir -p "$apt/none" "$apt/state/lists/partial" "$apt/cache/archives/partial" "$into"/usr/{bin,sbin,lib,lib64} || exit 1
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $1 sid main" > "$apt/sources.list"
  # Perl serves helper scripts, and mysqld needs none of them.
  printf '%s\n' 'Package: perl' 'Status: install ok installed' 'Architecture: amd64' 'Multi-Arch: allowed' 'Maintainer: none' \
    'Version: 99' 'Description: none' '' > "$apt/state/status"
  own_apt update || exit 1
  own_apt -y --download-only install mysql-server-core || exit 1
  # Debian's merged /usr: the links first, since dpkg-deb keeps one that leads to a folder.
  for each in bin sbin lib lib64; do ln -s "usr/$each" "$into/$each" || exit 1; done
  for each in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$each" "$into" || exit 1; done
  rm -rf "$apt"
}

make_data() {
  local data=$dir/mysql command
  [[ ! -d $data/mysql ]] || return 0
  rm -rf "$data" "$data.part"
  mysqld_command "--datadir=$data.part" --initialize-insecure
  "${command[@]}" > "$dir/mysql.install.log" 2>&1 < /dev/null || {
    tail -n 20 "$dir/mysql.install.log" >&2
    die "$set: mysqld --initialize-insecure failed; all of its output: $dir/mysql.install.log"
  }
  mv "$data.part" "$data"
}

start() {
  fetch_program
  ! running mysql || return 0
  local options command
  echo "$accounts" > "$dir/init.sql"
  make_data
  mapfile -t options < <(common_options mysql)
  mysqld_command "${options[@]}" --mysqlx=OFF
  unset LD_PRELOAD LD_LIBRARY_PATH
  LC_ALL=C launch mysql "${command[@]:6}" # the process itself, whose command line is how it is recognised
}

# It says so in its log after it has read init.sql.
ready() { grep -q 'ready for connections' "$dir/mysql.log" && serves "$base"; }

variables() { echo "RMQDEDUP_MYSQL=mysql://root@127.0.0.1:$base/test"; }
