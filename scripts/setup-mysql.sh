# shellcheck shell=bash
# The MySQL half of scripts/setup.sh, which reads this file.
#
# What it leaves in .tools/mysql, which may be used as VT_MYSQL_ROOT and may be
# copied or moved as a whole:
#   bin/mysqld, mysql, mysqldump, mysqladmin, mysqlbinlog
#   mysqld.cnf   settings this mysqld does not run without; no path in it
#   VERSION      where it came from
# There is no mysqld_safe: the process that is started is the server itself.

# Counts up when the layout changes, so that an older folder is made anew.
MYSQL_LAYOUT=1
# The first release with everything used here (clone, semi-sync by its new
# names, and the statements that say SOURCE and REPLICA).
MYSQL_OLDEST=8.0.26
MYSQL_PROGRAMS="mysqld mysql mysqldump mysqladmin"
# Vitess wants it for restores to a point in time only.
MYSQL_OPTIONAL="mysqlbinlog"
MYSQL_ADVICE="install MySQL or Percona Server $MYSQL_OLDEST or later, or name its folder in VT_MYSQL_ROOT"

# version_at_least A B: is version A the same as B or later? Only the numbers
# before the first other character count: 9.7.4-2 is 9.7.4.
version_at_least() {
	local -a a b
	local i
	IFS=. read -r -a a <<<"${1%%[!0-9.]*}"
	IFS=. read -r -a b <<<"${2%%[!0-9.]*}"
	for i in 0 1 2 3; do
		[ "$((10#${a[i]:-0}))" -eq "$((10#${b[i]:-0}))" ] && continue
		[ "$((10#${a[i]:-0}))" -gt "$((10#${b[i]:-0}))" ]
		return
	done
	return 0
}

# mysqld_verdict OUTPUT_OF_MYSQLD_VERSION: prints "ok V", "old V", "mariadb V"
# or "unknown".
mysqld_verdict() {
	local version
	version=$(sed -nE 's/.*Ver ([0-9]+\.[0-9]+\.[0-9]+[^ ]*).*/\1/p' <<<"$1" | head -n 1)
	case $1 in
	*MariaDB*) echo "mariadb ${version:-?}" ;;
	*) if [ -z "$version" ]; then
		echo unknown
	elif version_at_least "$version" "$MYSQL_OLDEST"; then
		echo "ok $version"
	else
		echo "old $version"
	fi ;;
	esac
}

# debian_problem OS_RELEASE_FILE: why MySQL cannot be fetched on this system;
# prints nothing when it can.
debian_problem() {
	local id version name
	id=$(os_release_field "$1" ID)
	version=$(os_release_field "$1" VERSION_ID)
	name=$(os_release_field "$1" PRETTY_NAME)
	if [ "$id" != debian ]; then
		echo "found ${name:-an unknown system}, expected Debian 12 or later to fetch a MySQL on"
	elif [ -n "$version" ] && ! version_at_least "$version" 12; then
		# Testing and sid have no VERSION_ID.
		echo "found Debian $version, expected Debian 12 or later to fetch a MySQL on"
	fi
}

os_release_field() {
	[ -r "$1" ] && sed -nE "s/^$2=[\"']?([^\"']*)[\"']?\$/\\1/p" "$1" | head -n 1
}

# apt_sources ETC_APT_FOLDER: one line "URI SUITE" for each source of main
# packages, of both formats, switched-off ones left out.
apt_sources() {
	local file
	for file in "$1/sources.list" "$1"/sources.list.d/*.list; do
		[ -r "$file" ] && awk '
			{ sub(/#.*/, "") }
			$1 == "deb" {
				sub(/\[[^]]*\]/, "")
				for (i = 4; i <= NF; i++) if ($i == "main") { print $2, $3; break }
			}' "$file"
	done
	for file in "$1"/sources.list.d/*.sources; do
		[ -r "$file" ] && awk '
			function flush(  u, s, i, j, n, m) {
				if (f["types"] ~ /(^| )deb( |$)/ && f["components"] ~ /(^| )main( |$)/ && f["enabled"] !~ /no|false|off|0/) {
					n = split(f["uris"], u, " "); m = split(f["suites"], s, " ")
					for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print u[i], s[j]
				}
				split("", f); key = ""
			}
			/^#/ { next }
			/^[ \t]*$/ { flush(); next }
			/^[ \t]/ { f[key] = f[key] " " $0; gsub(/[ \t]+/, " ", f[key]); next }
			{
				key = tolower($0); sub(/:.*/, "", key)
				value = $0; sub(/^[^:]*:[ \t]*/, "", value)
				gsub(/[ \t]+/, " ", value); sub(/ $/, "", value); f[key] = value
			}
			END { flush() }' "$file"
	done
}

# debian_mirrors ETC_APT_FOLDER: the URIs of the Debian archive among them,
# debian.org's first, as those are surely what they seem to be. Others' package
# sources for Debian can look the same; a wrong one fails at its signature and
# the next is tried.
debian_mirrors() {
	apt_sources "$1" | awk '
		$2 !~ /^(bookworm|trixie|forky|duke|sid|unstable|testing|stable|oldstable)(-updates)?$/ { next }
		{ uri = $1; sub(/\/+$/, "", uri) }
		uri ~ /security/ { next }
		uri !~ /\/debian(\.list|\/[0-9]+T[0-9]+Z)?$/ || seen[uri]++ { next }
		uri ~ /^[a-z+]+:\/\/[^\/]*debian\.org\// { print uri; next }
		{ later[++n] = uri }
		END { for (i = 1; i <= n; i++) print later[i] }'
}

# mysql_up_to_date FOLDER: whether what is there runs and is what is asked for.
mysql_up_to_date() {
	local program
	grep -qsx "layout: $MYSQL_LAYOUT" "$1/VERSION" || return 1
	for program in $MYSQL_PROGRAMS; do
		[ -x "$1/bin/$program" ] || return 1
	done
	"$1/bin/mysqld" --no-defaults --version >/dev/null 2>&1 || return 1
	[ -z "$OWN_MYSQL_ROOT" ] || grep -qsxF "from: $OWN_MYSQL_ROOT" "$1/VERSION"
}

# own_mysql_root FOLDER: VT_MYSQL_ROOT, unless it is the folder made here, as
# in a shell set up for the dev cluster.
own_mysql_root() {
	[ -n "${VT_MYSQL_ROOT:-}" ] || return 0
	[ "$(readlink -f -- "$VT_MYSQL_ROOT")" = "$(readlink -f -- "$1")" ] || printf '%s' "$VT_MYSQL_ROOT"
}

# find_program ROOT NAME: prints its path, in ROOT or else on PATH; the PATH's
# folders that are ours do not count.
find_program() {
	local dir
	for dir in "$1"/bin "$1"/sbin "$1"/libexec; do
		[ -x "$dir/$2" ] && printf '%s' "$dir/$2" && return
	done
	while IFS= read -r dir; do
		case $(readlink -f -- "$dir") in
		"$ROOT"/.tools/*) ;;
		*) printf '%s' "$dir" && return ;;
		esac
	done < <(type -ap "$2")
	return 1
}

# find_mysql: sets MYSQLD to a server of the user's own that will do, and
# MYSQLD_HOME to the folder it is installed in; fails when there is none.
find_mysql() {
	local verdict
	MYSQLD=''
	if [ -n "$OWN_MYSQL_ROOT" ]; then
		[ -d "$OWN_MYSQL_ROOT" ] && MYSQLD=$(PATH='' find_program "$OWN_MYSQL_ROOT" mysqld)
		[ -n "$MYSQLD" ] || fail "mysql: found no bin/mysqld, sbin/mysqld or libexec/mysqld in VT_MYSQL_ROOT=$OWN_MYSQL_ROOT, expected one; correct or unset VT_MYSQL_ROOT"
		MYSQLD_HOME=$(readlink -f -- "$OWN_MYSQL_ROOT")
	else
		MYSQLD=$(find_program /nonexistent mysqld) || return 1
		MYSQLD_HOME=$(dirname -- "$(dirname -- "$(readlink -f -- "$MYSQLD")")")
	fi
	verdict=$(mysqld_verdict "$("$MYSQLD" --no-defaults --version 2>&1)")
	case $verdict in
	"ok "*) MYSQLD_VERSION=${verdict#ok } ;;
	"old "*) warn "mysql: found MySQL ${verdict#old } ($MYSQLD), expected $MYSQL_OLDEST or later; not using it" && return 1 ;;
	"mariadb "*) warn "mysql: found MariaDB ${verdict#mariadb } ($MYSQLD), expected MySQL $MYSQL_OLDEST or later; not using it" && return 1 ;;
	*) warn "mysql: found no version in the output of $MYSQLD --version, expected MySQL $MYSQL_OLDEST or later; not using it" && return 1 ;;
	esac
}

# write_cnf FOLDER
write_cnf() {
	# The built-in default is a folder that only an installed server has, or
	# that only its own user may read; the server does not start without it.
	printf '%s\n' '[mysqld]' '# The built-in default is a folder which this server does not have.' \
		'secure-file-priv=' >"$1/mysqld.cnf"
	cp -- "$1/mysqld.cnf" "$1/mysqld.cnf.in"
}

# link_mysql FOLDER: a folder of links to the user's own server.
link_mysql() {
	local program path
	mkdir -p -- "$1/bin"
	ln -s -- "$(readlink -f -- "$MYSQLD")" "$1/bin/mysqld"
	for program in $MYSQL_PROGRAMS $MYSQL_OPTIONAL; do
		[ "$program" = mysqld ] && continue
		path=$(find_program "$MYSQLD_HOME" "$program")
		if [ -n "$path" ] && ! "$path" --no-defaults --version 2>&1 | grep -q MariaDB; then
			ln -s -- "$(readlink -f -- "$path")" "$1/bin/$program"
		elif [[ " $MYSQL_PROGRAMS " == *" $program "* ]]; then
			warn "mysql: found MySQL $MYSQLD_VERSION ($MYSQLD) but no $program of MySQL, expected one in $MYSQLD_HOME/bin or on PATH; not using it"
			return 1
		fi
	done
	# Started with basedir set to this folder, as Vitess does, the server looks
	# for its plugins and messages below it.
	for path in lib lib64 share; do
		[ -e "$MYSQLD_HOME/$path" ] && ln -s -- "$MYSQLD_HOME/$path" "$1/$path"
	done
	write_cnf "$1"
	printf '%s\n' "layout: $MYSQL_LAYOUT" "from: ${OWN_MYSQL_ROOT:-$MYSQLD}" "mysqld $MYSQLD_VERSION" >"$1/VERSION"
}

# write_apt_conf FOLDER MIRROR KEYRING: an apt of our own in FOLDER. It is read
# after the machine's configuration, of which proxies and the like stay in force.
write_apt_conf() {
	mkdir -p -- "$1/lists/partial" "$1/archives/partial" "$1/empty"
	: >"$1/status"
	cat >"$1/debian.sources" <<-EOF
		Types: deb
		URIs: $2
		Suites: sid
		Components: main
		Architectures: $(dpkg --print-architecture)
		Targets: Packages
		Signed-By: $3
	EOF
	# Hooks, pins and choices made for the machine's own packages do not
	# concern this one. The empty status file makes apt fetch every library,
	# down to libc.
	cat >"$1/apt.conf" <<-EOF
		#clear APT::Update;
		#clear APT::Default-Release;
		#clear DPkg::Pre-Install-Pkgs;
		#clear DPkg::Pre-Invoke;
		#clear DPkg::Post-Invoke;
		Dir::State "$1";
		Dir::State::lists "$1/lists";
		Dir::State::status "$1/status";
		Dir::State::extended_states "$1/extended_states";
		Dir::Cache "$1";
		Dir::Cache::archives "$1/archives";
		Dir::Cache::pkgcache "";
		Dir::Cache::srcpkgcache "";
		Dir::Etc::SourceList "$1/debian.sources";
		Dir::Etc::SourceParts "$1/empty";
		Dir::Etc::Preferences "$1/none";
		Dir::Etc::PreferencesParts "$1/empty";
		Dir::Log "$1";
		APT::Sandbox::User "$(id -un)";
		APT::Install-Recommends "false";
		APT::Install-Suggests "false";
		APT::Update::Error-Mode "any";
		APT::Get::AllowUnauthenticated "false";
		APT::Get::Assume-Yes "true";
		Acquire::AllowInsecureRepositories "false";
		Acquire::AllowWeakRepositories "false";
		Acquire::Languages "none";
		Acquire::Retries "2";
		Acquire::http::Timeout "30";
		Acquire::https::Timeout "30";
		Debug::NoLocking "true";
		Binary::apt-get::APT::Keep-Downloaded-Packages "true";
	EOF
}

# debian_keyring: the file Debian's own archive keys are in.
debian_keyring() {
	local file
	for file in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
		[ -r "$file" ] && printf '%s' "$file" && return
	done
	return 1
}

# open_archive FOLDER ETC_APT_FOLDER: reads sid's package lists from the first
# of the machine's mirrors that has them.
open_archive() {
	local mirrors mirror keyring problem
	keyring=$(debian_keyring) ||
		fail "mysql: found no /usr/share/keyrings/debian-archive-keyring.gpg, expected it to check signatures; install debian-archive-keyring"
	mirrors=$(debian_mirrors "$2")
	[ -n "$mirrors" ] ||
		fail "mysql: found no Debian mirror in $2/sources.list and sources.list.d, expected one (deb http://…/debian … main); add it, or $MYSQL_ADVICE"
	while IFS= read -r mirror; do
		write_apt_conf "$1" "$mirror" "$keyring"
		say "mysql: reading the package list of suite sid from $mirror"
		apt-get -c "$1/apt.conf" -q update >"$1/log" 2>&1 </dev/null && return
		problem="$mirror: $(last_error "$1/log")"
	done <<<"$mirrors"
	fail "mysql: cannot read suite sid of $problem; check the network and its proxy, or $MYSQL_ADVICE"
}

# fetch_debs FOLDER: sets FETCHED, the version, and leaves the packages, which
# apt has checked against the signed list, in FOLDER/archives.
fetch_debs() {
	FETCHED=$(apt-cache -c "$1/apt.conf" show mysql-server-core 2>/dev/null | awk '$1 == "Version:" { print $2; exit }')
	version_at_least "${FETCHED:-0}" "$MYSQL_OLDEST" ||
		fail "mysql: found ${FETCHED:-no version} of mysql-server-core in suite sid, expected $MYSQL_OLDEST or later; $MYSQL_ADVICE"
	say "mysql: fetching $FETCHED from suite sid"
	apt-get -c "$1/apt.conf" -q -d install mysql-server-core mysql-client-core >"$1/log" 2>&1 </dev/null ||
		fail "mysql: cannot fetch the packages: $(last_error "$1/log"); check the network and run scripts/setup.sh again"
}

# unpack_debs APT_FOLDER UNPACK_FOLDER
unpack_debs() {
	local deb
	say "mysql: unpacking"
	for deb in "$1"/archives/*.deb; do
		dpkg -x "$deb" "$2" >"$1/log" 2>&1 || fail "mysql: cannot unpack ${deb##*/}: $(last_error "$1/log")"
		dpkg-deb -f "$deb" Package Version | awk '{ printf "%s%s", $2, NR % 2 ? " " : "\n" }' >>"$1/packages"
		rm -f -- "$deb"
	done
}

# lay_out UNPACKED FOLDER: what servers and clients need, and no more.
#
# The programs want a newer libc than the system's, so each is run by the
# loader and with the libraries it came with. A script finds them from its own
# place rather than paths written into the programs, so the folder can be moved
# and copied. It ends in exec, so the process started is the server. lib/mysql
# must hold no libraries: Vitess puts it into LD_LIBRARY_PATH, and the shell
# that runs the script is the system's.
lay_out() {
	local program path loader
	mkdir -p -- "$2/bin" "$2/share" "$2/lib/private/loader" "$2/lib/programs" || return 1
	mv -- "$1"/usr/lib/*-linux-*/*.so* "$2/lib/private/" || return 1
	loader=$(cd -- "$2/lib/private" && ls -- ld-linux*.so.* | head -n 1)
	[ -n "$loader" ] || return 1
	mv -- "$1/usr/lib/mysql" "$2/lib/mysql" && mv -- "$1/usr/share/mysql" "$2/share/mysql" || return 1
	cat >"$2/bin/mysqld" <<-'EOF' || return 1
		#!/bin/sh
		# Runs the program of this name by the loader and with the libraries it
		# was built for, which are not the system's.
		self=$(readlink -f -- "$0") && root=${self%/bin/*} && name=${self##*/} || exit 1
		exec "$root/lib/private/loader/$name" --argv0 "$root/bin/$name" \
			--library-path "$root/lib/private" "$root/lib/programs/$name" "$@"
	EOF
	chmod 755 -- "$2/bin/mysqld"
	for program in $MYSQL_PROGRAMS $MYSQL_OPTIONAL; do
		path=$1/usr/sbin/$program
		[ -e "$path" ] || path=$1/usr/bin/$program
		mv -- "$path" "$2/lib/programs/$program" || return 1
		[ "$program" = mysqld ] || cp -- "$2/bin/mysqld" "$2/bin/$program" || return 1
		# The kernel names a process after the file it was started from: without
		# these, all would be called ld-linux.
		ln -s -- "../$loader" "$2/lib/private/loader/$program" || return 1
	done
}

# check_programs FOLDER
check_programs() {
	local program out
	for program in $MYSQL_PROGRAMS; do
		out=$("$1/bin/$program" --no-defaults --version 2>&1) ||
			fail "mysql: the $program in place does not run: ${out##*$'\n'}; $MYSQL_ADVICE"
	done
}

# fetch_mysql FOLDER OS_RELEASE_FILE ETC_APT_FOLDER
fetch_mysql() {
	local problem
	problem=$(debian_problem "$2")
	[ -z "$problem" ] || fail "mysql: $problem; $MYSQL_ADVICE"
	need_tool apt-get "install apt, or $MYSQL_ADVICE"
	need_tool dpkg "install dpkg, or $MYSQL_ADVICE"
	need_space "$ROOT/.tools" 900 "fetching and unpacking MySQL"
	open_archive "$TMP/apt" "$3"
	fetch_debs "$TMP/apt"
	unpack_debs "$TMP/apt" "$TMP/unpacked"
	lay_out "$TMP/unpacked" "$1" 2>"$TMP/apt/log" ||
		fail "mysql: the packages of $FETCHED are not laid out as expected: $(last_error "$TMP/apt/log"); $MYSQL_ADVICE"
	write_cnf "$1"
	{
		printf '%s\n' "layout: $MYSQL_LAYOUT" "from: suite sid"
		cat -- "$TMP/apt/packages"
	} >"$1/VERSION"
}

# setup_mysql: fills .tools/mysql.
setup_mysql() {
	local target=$ROOT/.tools/mysql new=$TMP/mysql
	OWN_MYSQL_ROOT=$(own_mysql_root "$target")
	mysql_up_to_date "$target" && return
	if find_mysql && link_mysql "$new"; then
		say "mysql: using MySQL $MYSQLD_VERSION ($MYSQLD), nothing is fetched"
	else
		rm -rf -- "$new"
		fetch_mysql "$new" /etc/os-release /etc/apt
	fi
	check_programs "$new"
	[ ! -e "$target" ] || mv -- "$target" "$TMP/old-mysql" || fail "mysql: cannot move $target away; remove it"
	mv -- "$new" "$target" || fail "mysql: cannot put $target in place; check its owner"
	rm -rf -- "${TMP:?}"/*
	DONE=1
}
