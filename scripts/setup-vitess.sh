# shellcheck shell=bash
# The half of scripts/setup.sh that builds programs, which reads this file.

# Ours, with our vindexes, and Vitess' own of the version in go.mod.
VITESS_OURS="vtgate vttablet vtctld"
VITESS_THEIRS="vtctldclient mysqlctl mysqlctld vtorc"

# go_problem GO_MOD: why Go cannot build this module; prints nothing when it
# can. A go of 1.21 or later that is too old fetches the right one by itself,
# if it may.
go_problem() {
	local want have out
	want=$(awk '$1 == "go" { print $2; exit }' "$1")
	have=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null)
	version_at_least "${have#go}" "$want" && return
	out=$(cd -- "$(dirname -- "$1")" && go env GOVERSION 2>&1) && version_at_least "${out#go}" "$want" && return
	echo "found ${have:-a go without a version}, expected go$want or later (go.mod)"
}

# stale STAMP PATH...: is anything newer than the stamp? Folders count too: they
# change when a file in them is removed.
stale() {
	local stamp=$1 newer
	shift
	[ -e "$stamp" ] || return 0
	newer=$(find "$@" -newer "$stamp" -print -quit 2>/dev/null)
	[ -n "$newer" ]
}

# program_sources NAME: sets SOURCES to the files and folders it is built from,
# without what go.mod names.
program_sources() {
	local dir
	SOURCES=("$ROOT/go.mod" "$ROOT/go.sum")
	if [[ " $VITESS_OURS " == *" $1 "* ]]; then
		# pkg/shardid and pkg/teammap are what our vindexes may import of ours.
		SOURCES+=("$ROOT/cmd/$1" "$ROOT/vindexes" "$ROOT/pkg/shardid" "$ROOT/pkg/teammap")
	elif [ "$1" = vifl ]; then
		for dir in "$ROOT"/*/; do
			[ "$dir" = "$ROOT/bin/" ] || SOURCES+=("$dir")
		done
	fi
}

# program_stale NAME KEY
program_stale() {
	local stamp=$ROOT/.tools/built/$1
	[ -x "$ROOT/bin/$1" ] && grep -qsxF -- "$2" "$stamp" || return 0
	program_sources "$1"
	stale "$stamp" "${SOURCES[@]}"
}

# build_key: what besides files the programs depend on.
build_key() {
	(cd -- "$ROOT" && go env GOVERSION GOOS GOARCH | xargs)
}

# build_one NAME PACKAGE: go itself builds elsewhere and then renames, as
# GOTMPDIR is on the same file system.
build_one() {
	(cd -- "$ROOT" && GOTMPDIR=$TMP CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w" \
		-o "bin/$1" "$2") >"$TMP/log" 2>&1 </dev/null && return
	cat -- "$TMP/log" >&2
	fail "vitess: cannot build $1, for the reasons above; check the network if a module could not be fetched, else correct the code"
}

setup_vitess() {
	local name problem key count=0
	local -a names=()
	need_tool go "install Go ($(awk '$1 == "go" { print $2; exit }' "$ROOT/go.mod") or later)"
	problem=$(go_problem "$ROOT/go.mod")
	[ -z "$problem" ] || fail "vitess: $problem; install that version of Go"
	key=$(build_key)
	for name in $VITESS_THEIRS $VITESS_OURS vifl; do
		program_stale "$name" "$key" && names+=("$name")
	done
	[ "${#names[@]}" -gt 0 ] || return 0
	need_space "$ROOT" 1200 "building and keeping the programs in bin"
	mkdir -p -- "$ROOT/bin" "$ROOT/.tools/built"
	for name in "${names[@]}"; do
		count=$((count + 1))
		say "vitess: building $name … $count of ${#names[@]}"
		# Made first: what changes while we build must look newer than the stamp.
		echo "$key" >"$TMP/stamp"
		if [[ " $VITESS_THEIRS " == *" $name "* ]]; then
			build_one "$name" "vitess.io/vitess/go/cmd/$name"
		else
			build_one "$name" "./cmd/$name"
		fi
		mv -- "$TMP/stamp" "$ROOT/.tools/built/$name"
	done
	DONE=1
}
