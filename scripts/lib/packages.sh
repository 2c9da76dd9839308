# shellcheck shell=bash
# Debian packages, installed only when something is missing. Needs common.sh.

# lacks COMMAND PACKAGE: prints PACKAGE unless COMMAND is there.
lacks() { command -v "$1" > /dev/null || printf '%s\n' "$2"; }

# install_packages PACKAGE...: installs them, but starts none of the services they bring.
install_packages() {
  (($# > 0)) || return 0
  [[ $EUID == 0 ]] && command -v apt-get > /dev/null ||
    die "missing: $* (names of Debian packages). Run this as root on Debian to have them installed, or install them in your own way."
  say "installing $*"
  mkdir -p "$local_dir"
  if ! (apt_install "$@") > "$local_dir/apt.log" 2>&1 < /dev/null; then
    tail -n 20 "$local_dir/apt.log" >&2
    die "apt-get could not install $*; all of its output: $local_dir/apt.log"
  fi
}

# Runs as a condition, where bash knows no set -e: whatever may fail says so itself.
apt_install() {
  # A server's package starts that server, on its default port and with its default data, as soon as it is unpacked.
  # Debian's own way to forbid it is this file; one that is there already has been put there by somebody to the same end.
  local policy=/usr/sbin/policy-rc.d units options=(-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  if [[ ! -e $policy ]]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    trap 'exit 130' INT TERM # so that the line above runs then too
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy" || exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get "${options[@]}" update || exit 1
  apt-get "${options[@]}" install -y --no-install-recommends "$@" || exit 1
  # Nor should it start with the next boot of the machine.
  if command -v systemctl > /dev/null; then
    mapfile -t units < <(dpkg -L "$@" | sed -n 's|.*/systemd/system/\([^/@]*\.service\)$|\1|p')
    ((${#units[@]} == 0)) || systemctl disable "${units[@]}" || exit 1
  fi
}
