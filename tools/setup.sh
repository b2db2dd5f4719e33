# shellcheck shell=bash
# Sourced by ./run: installs the Debian packages of tools/packages.txt that are missing. Nothing is downloaded, and no
# root is needed, when all are there.

readonly APT_OPTIONS=(--yes --no-install-recommends -o DPkg::Lock::Timeout=600)

die() {
  printf 'run: %s\n' "$*" >&2
  exit 1
}

# wanted_packages GROUP...: the lines of those groups that apply to this machine, one name or `a|b` a line.
wanted_packages() {
  local group="" line condition
  while read -r line condition; do
    case "$line" in
      "" | "#"*) ;;
      "["*) group="${line//[\[\]]/}" ;;
      *)
        [[ " $* " == *" $group "* ]] || continue
        if [[ "$condition" == unless:* ]] && command -v "${condition#unless:}" >/dev/null; then continue; fi
        printf '%s\n' "$line"
        ;;
    esac
  done <tools/packages.txt
}

# missing_packages GROUP...: those of them that are not installed.
missing_packages() {
  local wanted line name installed
  mapfile -t wanted < <(wanted_packages "$@")
  # One query for all; dpkg-query complains about names it has never heard of, and answers for the others.
  # shellcheck disable=SC2016 # dpkg-query expands these
  installed=" $(printf '%s\n' "${wanted[@]}" | tr '|' '\n' |
    xargs dpkg-query -W -f '${db:Status-Status}:${Package} ' 2>/dev/null || true)"
  for line in "${wanted[@]}"; do
    for name in ${line//|/ }; do
      [[ "$installed" == *" installed:$name "* ]] && continue 2
    done
    printf '%s\n' "$line"
  done
}

# first_known NAME|NAME...: the first that apt could install.
first_known() {
  local name
  for name in ${1//|/ }; do
    if apt-cache policy "$name" 2>/dev/null | grep 'Candidate: [^(]' >/dev/null; then
      printf '%s\n' "$name"
      return
    fi
  done
  die "no Debian package is called ${1//|/ or }; ebb is built on Debian 12 and 13 (tools/packages.txt)"
}

# install_packages GROUP...: makes sure that all packages of those groups are there.
install_packages() {
  local missing names=() name line plan
  command -v dpkg-query >/dev/null || die "this needs Debian 12 or 13; elsewhere, install what docs/dependencies.md lists and use the CMake presets"
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    die "packages are missing; as root: apt-get update && apt-get install --no-install-recommends ${missing[*]%%|*}"
  fi
  export DEBIAN_FRONTEND=noninteractive
  echo "Missing packages: ${missing[*]}. Fetching the package lists (10 to 20 MB) ..."
  apt-get "${APT_OPTIONS[@]}" -qq update
  for line in "${missing[@]}"; do
    name="$(first_known "$line")"
    names+=("$name")
  done
  plan="$(apt-get "${APT_OPTIONS[@]}" -qq --print-uris install "${names[@]}")"
  awk -v names="${names[*]}" '{ bytes += $3 } END {
    printf "Installing %s: %d packages with what they need, a download of %.0f MB.\n", names, NR, bytes / 1e6 }' <<<"$plan"
  # Where systemd runs, Debian would start a service of the scraper that one test starts by itself.
  if [[ " ${names[*]} " == *" prometheus "* && -d /run/systemd/system ]]; then
    systemctl --runtime mask --quiet prometheus.service
  fi
  apt-get "${APT_OPTIONS[@]}" -qq -o Dpkg::Use-Pty=0 install "${names[@]}" >/dev/null
}

# install_python_tools: what tools/requirements.txt pins, with hashes, into .venv. Nothing happens when it is there.
install_python_tools() {
  cmp -s tools/requirements.txt .venv/requirements.txt && return
  echo "Fetching the Python tools of the tests (tools/requirements.txt, about 40 MB) into .venv ..."
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement tools/requirements.txt
  cp tools/requirements.txt .venv/requirements.txt
}
