#!/usr/bin/env bash
# Tests the parts of scripts/setup.sh that decide something, without a network
# and without writing outside of a temporary folder.
set -uo pipefail

# Read, not run: it defines functions only.
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

PASSED=0
FAILED=0

# is NAME WANT GOT
is() {
	if [ "$2" = "$3" ]; then
		PASSED=$((PASSED + 1))
	else
		FAILED=$((FAILED + 1))
		printf 'FAIL %s\n  want: %s\n  got:  %s\n' "$1" "$2" "$3"
	fi
}

at_least() { version_at_least "$1" "$2" && echo yes || echo no; }

# like NAME PATTERN GOT
like() {
	# shellcheck disable=SC2254
	case $3 in
	$2) is "$1" "$3" "$3" ;;
	*) is "$1" "$2" "$3" ;;
	esac
}

test_versions() {
	is '8.0.25 < 8.0.26' no "$(at_least 8.0.25 8.0.26)"
	is '8.0.26 = 8.0.26' yes "$(at_least 8.0.26 8.0.26)"
	is '8.4 > 8.0.26' yes "$(at_least 8.4 8.0.26)"
	is '8.0 < 8.0.26' no "$(at_least 8.0 8.0.26)"
	is '9.7.4-2 > 8.0.26' yes "$(at_least 9.7.4-2 8.0.26)"
	is '10.0.1 > 9.7.4' yes "$(at_least 10.0.1 9.7.4)"
	is '8.0.08 is no octal number' no "$(at_least 8.0.08 8.0.26)"
	is '5.7.44 < 8.0.26' no "$(at_least 5.7.44 8.0.26)"
	is '1.26.8 for go1.26rc1' no "$(at_least 1.26rc1 1.26.8)"
	is 'no version' no "$(at_least '' 8.0.26)"
}

test_verdicts() {
	is 'MySQL too old' 'old 8.0.25' "$(mysqld_verdict '/usr/sbin/mysqld  Ver 8.0.25 for Linux on x86_64 (MySQL Community Server - GPL)')"
	is 'MySQL just new enough' 'ok 8.0.26' "$(mysqld_verdict '/usr/sbin/mysqld  Ver 8.0.26 for Linux on x86_64 (MySQL Community Server - GPL)')"
	is 'MySQL 8.4' 'ok 8.4.3' "$(mysqld_verdict '/opt/my sql/bin/mysqld  Ver 8.4.3 for Linux on aarch64 (MySQL Community Server - GPL)')"
	is 'MySQL of Debian' 'ok 9.7.4-2' "$(mysqld_verdict '/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))')"
	is 'Percona' 'ok 8.0.36-28' "$(mysqld_verdict '/usr/sbin/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28, Revision 47601f19)')"
	is 'MySQL 5.7' 'old 5.7.44-log' "$(mysqld_verdict 'mysqld  Ver 5.7.44-log for Linux on x86_64 (MySQL Community Server (GPL))')"
	is 'MariaDB' 'mariadb 10.11.6-MariaDB-0+deb12u1' "$(mysqld_verdict 'mysqld  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)')"
	is 'no version' unknown "$(mysqld_verdict 'error while loading shared libraries')"
}

os_release() {
	printf '%s\n' "$@" >"$DIR/os-release"
	debian_problem "$DIR/os-release"
}

test_systems() {
	is 'Debian 12' '' "$(os_release 'ID=debian' 'VERSION_ID="12"' 'VERSION_CODENAME=bookworm')"
	is 'Debian 13.1' '' "$(os_release 'ID=debian' 'VERSION_ID="13.1"')"
	is 'Debian sid' '' "$(os_release 'PRETTY_NAME="Debian GNU/Linux forky/sid"' 'ID=debian')"
	is 'Debian 11' 'found Debian 11, expected Debian 12 or later to fetch a MySQL on' "$(os_release 'ID=debian' 'VERSION_ID="11"')"
	is 'Ubuntu' 'found Ubuntu 24.04.1 LTS, expected Debian 12 or later to fetch a MySQL on' \
		"$(os_release 'PRETTY_NAME="Ubuntu 24.04.1 LTS"' 'ID=ubuntu' 'ID_LIKE=debian' 'VERSION_ID="24.04"')"
	is 'no os-release' 'found an unknown system, expected Debian 12 or later to fetch a MySQL on' "$(debian_problem "$DIR/none")"
	TMP=$DIR
	MYSQLD=''
	is 'the line an unsupported system gives' \
		"mysql: found Fedora 41, expected Debian 12 or later to fetch a MySQL on; $MYSQL_ADVICE" \
		"$(printf 'ID=fedora\nPRETTY_NAME="Fedora 41"\n' >"$DIR/os-release" && fetch_mysql "$DIR/new" "$DIR/os-release" "$DIR" 2>&1)"
}

test_mirrors() {
	local etc=$DIR/apt
	mkdir -p "$etc/sources.list.d"
	is 'no sources' '' "$(debian_mirrors "$etc")"

	cat >"$etc/sources.list" <<-'EOF'
		# deb http://old.example/debian bookworm main
		deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] http://mirror.example/debian/ bookworm contrib main # near
		deb-src http://src.example/debian bookworm main
		deb http://mirror.example/debian bookworm-updates main
		deb http://security.debian.org/debian-security bookworm-security main
		deb https://download.example/linux/debian bookworm stable
		deb https://packages.example/apt cloud-bookworm main
		deb https://apt.releases.example bookworm main
	EOF
	is 'one-line format' http://mirror.example/debian "$(debian_mirrors "$etc")"

	cat >"$etc/sources.list.d/debian.sources" <<-'EOF'
		# The machine's own.
		types: deb deb-src
		URIs: http://deb.debian.org/debian
		# a comment between fields
		Suites: trixie
		  trixie-updates
		Components: main non-free-firmware
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

		Types: deb
		URIs: http://deb.debian.org/debian-security
		Suites: trixie-security
		Components: main

		Enabled: no
		Types: deb
		URIs: http://off.example/debian
		Suites: trixie
		Components: main

		Types: deb-src
		URIs: http://sources.example/debian
		Suites: trixie
		Components: main
	EOF
	is 'both formats, debian.org first' 'http://deb.debian.org/debian http://mirror.example/debian' "$(debian_mirrors "$etc" | xargs)"
	rm "$etc/sources.list"
	is 'deb822 format' http://deb.debian.org/debian "$(debian_mirrors "$etc" | xargs)"

	printf 'Types: deb\r\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: bookworm bookworm-updates\nComponents: main\n' |
		tr -d '\r' >"$etc/sources.list.d/debian.sources"
	is 'list of mirrors' mirror+file:///etc/apt/mirrors/debian.list "$(debian_mirrors "$etc" | xargs)"
	printf 'deb http://snapshot.debian.org/archive/debian/20250520T000000Z stable main\n' >"$etc/sources.list.d/a.list"
	rm "$etc/sources.list.d/debian.sources"
	is 'snapshot' http://snapshot.debian.org/archive/debian/20250520T000000Z "$(debian_mirrors "$etc" | xargs)"
	rm "$etc/sources.list.d/a.list"
	like 'the line a machine without a mirror gives' 'mysql: found no Debian mirror in *, expected one *; add it, or *' \
		"$(debian_keyring() { echo key; } && open_archive "$DIR/own" "$etc" 2>&1)"
}

# A server of the user's own, made of scripts that only tell their version.
fake_mysql() {
	local program
	mkdir -p "$1/bin" "$1/lib" "$1/share"
	for program in $MYSQL_PROGRAMS; do
		printf '#!/bin/sh\necho "%s  Ver %s"\n' "$program" "$2" >"$1/bin/$program"
		chmod 755 "$1/bin/$program"
	done
}

test_own_mysql() {
	local own=$DIR/own-mysql
	fake_mysql "$own" '8.4.3 for Linux on x86_64'
	OWN_MYSQL_ROOT=$own
	is 'VT_MYSQL_ROOT is taken' "8.4.3 $own" "$(find_mysql && echo "$MYSQLD_VERSION $MYSQLD_HOME")"
	find_mysql && link_mysql "$DIR/linked"
	is 'its programs are links' "$own/bin/mysqldump" "$(readlink "$DIR/linked/bin/mysqldump")"
	is 'its plugins are found below' "$own/lib" "$(readlink "$DIR/linked/lib")"
	is 'up to date' yes "$(mysql_up_to_date "$DIR/linked" && echo yes)"
	is 'another VT_MYSQL_ROOT' no "$(OWN_MYSQL_ROOT=/elsewhere mysql_up_to_date "$DIR/linked" || echo no)"
	is 'the folder made here is not the user'\''s own' '' "$(VT_MYSQL_ROOT=$DIR/linked own_mysql_root "$DIR/linked")"
	OWN_MYSQL_ROOT=$DIR/nothing
	like 'VT_MYSQL_ROOT without a server' 'mysql: found no bin/mysqld*VT_MYSQL_ROOT*expected one; correct or unset VT_MYSQL_ROOT' "$(find_mysql 2>&1)"

	OWN_MYSQL_ROOT=''
	like 'server on PATH' "8.4.3 $own" "$(PATH=$own/bin:$PATH && find_mysql && echo "$MYSQLD_VERSION $MYSQLD_HOME")"
	fake_mysql "$own" '8.0.25 for Linux on x86_64'
	like 'old server on PATH' 'mysql: found MySQL 8.0.25 (*), expected 8.0.26 or later; not using it' "$(PATH=$own/bin:$PATH find_mysql 2>&1)"
	fake_mysql "$own" '10.11.6-MariaDB for Linux on x86_64'
	like 'MariaDB on PATH' 'mysql: found MariaDB 10.11.6-MariaDB (*), expected MySQL 8.0.26 or later; not using it' "$(PATH=$own/bin:$PATH find_mysql 2>&1)"
}

test_lines() {
	like 'no tool' 'setup: found no no-such-tool on PATH, expected one; do this' "$(need_tool no-such-tool 'do this' 2>&1)"
	like 'no space' 'setup: found * MiB free in *, expected 999999999 MiB for a test; *' "$(need_space "$DIR" 999999999 'a test' 2>&1)"
	printf 'Get:1 x\nE: Failed to fetch y\nlast\n' >"$DIR/log"
	is 'apt says what went wrong' 'E: Failed to fetch y' "$(last_error "$DIR/log")"
	printf 'module example\n\ngo 99.1\n' >"$DIR/go.mod"
	if command -v go >/dev/null; then
		like 'go too old' 'found go*, expected go99.1 or later (go.mod)' "$(GOTOOLCHAIN=local go_problem "$DIR/go.mod")"
	fi
}

test_stale() {
	mkdir -p "$DIR/src"
	echo >"$DIR/src/a.go"
	is 'no stamp' yes "$(stale "$DIR/stamp" "$DIR/src" && echo yes)"
	touch -d '2020-01-01' "$DIR/src/a.go" "$DIR/src" && touch -d '2020-01-02' "$DIR/stamp"
	is 'nothing newer' no "$(stale "$DIR/stamp" "$DIR/src" || echo no)"
	touch "$DIR/src/a.go"
	is 'a newer file' yes "$(stale "$DIR/stamp" "$DIR/src" && echo yes)"
	is 'a folder that is not there' no "$(stale "$DIR/stamp" "$DIR/none" || echo no)"
}

DIR=$(mktemp -d) || exit 1
trap 'rm -rf -- "$DIR"' EXIT
test_versions
test_verdicts
test_systems
test_mirrors
test_own_mysql
test_lines
test_stale
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
