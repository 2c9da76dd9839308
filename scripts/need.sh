#!/usr/bin/env bash
# scripts/need.sh COMMAND:PACKAGE[,PACKAGE]... - installs the Debian packages of those commands that are missing.
set -euo pipefail

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/lib/common.sh
source "$scripts/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$scripts/lib/packages.sh"

missing=()
for pair; do
  command -v "${pair%%:*}" > /dev/null && continue
  IFS=, read -ra packages <<< "${pair#*:}"
  missing+=("${packages[@]}")
done
install_packages "${missing[@]}"
