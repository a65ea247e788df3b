# shellcheck shell=bash
# A Docker engine and a base image where there is none, for the tests. Read by
# scripts/compose-test.sh, after scripts/setup-mysql.sh.
#
# The engine's programs are Debian's, unpacked into .tools/engine: nothing is installed. It runs
# in network, process and mount namespaces of its own: no address, bridge or packet filter of
# the machine changes, and with its first process all its containers end.

ENGINE_PACKAGES="docker.io docker-compose iptables iproute2 debootstrap etcd-server etcd-client"
ENGINE_PROGRAMS="dockerd containerd runc docker-proxy iptables ip docker-compose debootstrap etcd etcdctl"

ENGINE_PID=
ENGINE_DIR=
ENGINE_DATA=

# engine_problem: why this machine cannot have an engine of ours; nothing when it can.
engine_problem() {
	local problem
	[ "$(id -u)" = 0 ] || { echo "found user $(id -un), expected root, as an engine needs it"; return; }
	problem=$(debian_problem /etc/os-release)
	[ -z "$problem" ] || { echo "$problem"; return; }
	[ "$(os_release_field /etc/os-release VERSION_ID)" = 12 ] || echo "found $(os_release_field /etc/os-release PRETTY_NAME), expected Debian 12, whose packages are used"
}

# engine_path: PATH and the like, with what was fetched before what is installed.
engine_path() {
	local e=$ROOT/.tools/engine
	PATH=$e/usr/sbin:$e/usr/bin:$e/sbin:$e/bin:$PATH:/usr/sbin:/sbin
	export PATH
	[ -d "$e" ] || return 0
	export LD_LIBRARY_PATH="$e/usr/lib/$(uname -m)-linux-gnu:$e/lib/$(uname -m)-linux-gnu"
	export PYTHONPATH=$e/usr/lib/python3/dist-packages
	export XTABLES_LIBDIR=/usr/lib/$(uname -m)-linux-gnu/xtables
	[ ! -d "$e$XTABLES_LIBDIR" ] || XTABLES_LIBDIR=$e$XTABLES_LIBDIR
	[ ! -d "$e/usr/share/debootstrap" ] || export DEBOOTSTRAP_DIR=$e/usr/share/debootstrap
}

engine_missing() {
	local program
	for program in $ENGINE_PROGRAMS; do
		command -v "$program" >/dev/null || echo "$program"
	done
}

# fetch_engine: the packages that the machine lacks, into .tools/engine.
fetch_engine() {
	local apt=$TMP/engine-apt deb keyring mirror
	engine_path
	[ -n "$(engine_missing)" ] || return 0
	need_space "$ROOT/.tools" 700 "fetching a Docker engine"
	keyring=$(debian_keyring) || fail "engine: found no Debian archive keyring, expected one; install debian-archive-keyring"
	mirror=$(debian_mirrors /etc/apt | head -n 1)
	[ -n "$mirror" ] || fail "engine: found no Debian mirror in /etc/apt, expected one"
	write_apt_conf "$apt" "$mirror" "$keyring"
	sed -i 's/^Suites: sid$/Suites: bookworm/' "$apt/debian.sources"
	# Only what is not installed: the rest is used as it is.
	cp -- /var/lib/dpkg/status "$apt/status"
	say "engine: fetching from suite bookworm: $ENGINE_PACKAGES"
	apt-get -c "$apt/apt.conf" -q update >"$apt/log" 2>&1 </dev/null ||
		fail "engine: cannot read suite bookworm of $mirror: $(last_error "$apt/log")"
	# shellcheck disable=SC2086
	apt-get -c "$apt/apt.conf" -q -d install $ENGINE_PACKAGES >"$apt/log" 2>&1 </dev/null ||
		fail "engine: cannot fetch the packages: $(last_error "$apt/log")"
	rm -rf -- "$TMP/engine"
	for deb in "$apt"/archives/*.deb; do
		dpkg -x "$deb" "$TMP/engine" >"$apt/log" 2>&1 || fail "engine: cannot unpack ${deb##*/}: $(last_error "$apt/log")"
	done
	# What Debian's alternatives would do.
	for deb in iptables ip6tables; do
		[ ! -e "$TMP/engine/usr/sbin/$deb-nft" ] || ln -sf "$deb-nft" "$TMP/engine/usr/sbin/$deb"
	done
	rm -rf -- "$ROOT/.tools/engine"
	mv -- "$TMP/engine" "$ROOT/.tools/engine"
	engine_path
	hash -r
	[ -z "$(engine_missing)" ] || fail "engine: the packages lack $(engine_missing | xargs), expected all of: $ENGINE_PROGRAMS"
}

# start_engine: our own; sets DOCKER_HOST, ENGINE_PID, ENGINE_DIR.
start_engine() {
	local i
	ENGINE_DIR=$(mktemp -d /tmp/vifl-engine.XXXXXX)
	mkdir -p -- "$ROOT/.tmp"
	ENGINE_DATA=$(mktemp -d -- "$ROOT/.tmp/engine.XXXXXX")
	need_space "$ENGINE_DATA" 6000 "images and volumes of the compose tests"
	say "engine: starting, with its data in $ENGINE_DATA"
	# The first process of the namespaces brings up the loopback and becomes dockerd. When we are
	# killed the kernel ends unshare, and with it the namespaces.
	setsid setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --mount-proc -- sh -c '
		ip link set lo up && exec dockerd "$@"' dockerd \
		--data-root "$ENGINE_DATA" --exec-root "$ENGINE_DIR/exec" --pidfile "$ENGINE_DIR/pid" -H "unix://$ENGINE_DIR/docker.sock" \
		>"$ENGINE_DIR/log" 2>&1 </dev/null 9>&- &
	ENGINE_PID=$!
	export DOCKER_HOST=unix://$ENGINE_DIR/docker.sock
	for ((i = 0; i < 240; i++)); do
		docker info >/dev/null 2>&1 && return 0
		kill -0 "$ENGINE_PID" 2>/dev/null || break
		sleep 0.5
	done
	warn "engine: it did not start: $(grep -E 'level=(error|fatal)|failed' "$ENGINE_DIR/log" | tail -n 1)"
	return 1
}

# stop_engine: and all that runs in it, by the id of its first process.
stop_engine() {
	local i
	if [ -n "$ENGINE_PID" ]; then
		# To dockerd itself, unshare's child: unshare passes on nothing but its own end.
		# shellcheck disable=SC2046
		kill -TERM $(cat "/proc/$ENGINE_PID/task/$ENGINE_PID/children" 2>/dev/null) 2>/dev/null
		for ((i = 0; i < 100; i++)); do
			kill -0 "$ENGINE_PID" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "$ENGINE_PID" 2>/dev/null
		wait "$ENGINE_PID" 2>/dev/null
		ENGINE_PID=
	fi
	[ -n "$ENGINE_DIR" ] || return 0
	# The kernel takes a moment to take the namespaces' mounts away.
	for ((i = 0; i < 50; i++)); do
		rm -rf -- "$ENGINE_DIR" ${ENGINE_DATA:+"$ENGINE_DATA"} 2>/dev/null && break
		sleep 0.2
	done
}

# build_base NAME: imports Debian 12 as a base image. The tree is made in memory where there is
# room: debootstrap syncs every file.
build_base() {
	local tar=$ROOT/.tools/base-bookworm.tar dir
	if [ ! -s "$tar" ]; then
		dir=$TMP
		[ "$(df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt 1500 ] 2>/dev/null && dir=/dev/shm
		BASE_DIR=$(mktemp -d -- "$dir/vifl-base.XXXXXX")
		say "base image: debootstrap of bookworm"
		debootstrap --variant=minbase bookworm "$BASE_DIR" "$(debian_mirrors /etc/apt | head -n 1)" >"$TMP/debootstrap.log" 2>&1 ||
			fail "base image: debootstrap: $(last_error "$TMP/debootstrap.log")"
		# What Debian's slim images leave out as well.
		(cd -- "$BASE_DIR" && rm -rf -- usr/share/{doc,man,info,locale,lintian}/* var/cache/apt/* var/lib/apt/lists/* var/log/*)
		tar -C "$BASE_DIR" --one-file-system -cf "$tar.new" . && mv -- "$tar.new" "$tar"
		rm -rf -- "$BASE_DIR"
	fi
	docker import "$tar" "$1" >/dev/null || fail "base image: docker import failed"
}
