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

# vitess_stale: sets OUT_OF_DATE to the programs to build.
vitess_stale() {
	local name dir stamp=$ROOT/.tools/built
	local -a sources=("$ROOT/go.mod" "$ROOT/go.sum") folders=()
	OUT_OF_DATE=''
	if ! grep -qsxF "$(build_key)" "$stamp" || stale "$stamp" "${sources[@]}"; then
		OUT_OF_DATE="$VITESS_THEIRS $VITESS_OURS vifl"
		return
	fi
	for name in $VITESS_THEIRS; do
		[ -x "$ROOT/bin/$name" ] || OUT_OF_DATE+=" $name"
	done
	for name in $VITESS_OURS; do
		# pkg/shardid is what our vindexes may import of ours.
		if [ ! -x "$ROOT/bin/$name" ] || stale "$stamp" "$ROOT/cmd/$name" "$ROOT/vindexes" "$ROOT/pkg/shardid"; then
			OUT_OF_DATE+=" $name"
		fi
	done
	for dir in "$ROOT"/*/; do
		[ "$dir" = "$ROOT/bin/" ] || folders+=("$dir")
	done
	if [ ! -x "$ROOT/bin/vifl" ] || stale "$stamp" "${folders[@]}"; then
		OUT_OF_DATE+=" vifl"
	fi
}

# build_key: what besides files the programs depend on.
build_key() {
	(cd -- "$ROOT" && echo "$(go env GOVERSION GOOS GOARCH | tr '\n' ' ')")
}

# build_one NAME PACKAGE: go itself builds elsewhere and then renames, as
# GOTMPDIR is on the same file system.
build_one() {
	(cd -- "$ROOT" && GOTMPDIR=$TMP CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w" \
		-o "bin/$1" "$2") >"$TMP/log" 2>&1 </dev/null && return
	cat -- "$TMP/log" >&2
	fail "vitess: cannot build $1: $(last_error "$TMP/log"); check the network if modules could not be fetched, else the code"
}

setup_vitess() {
	local name problem count=0 total
	local -a names
	need_tool go "install Go ($(awk '$1 == "go" { print $2; exit }' "$ROOT/go.mod") or later)"
	problem=$(go_problem "$ROOT/go.mod")
	[ -z "$problem" ] || fail "vitess: $problem; install that version of Go"
	vitess_stale
	# A tree without the command has nothing to build it from.
	[ -d "$ROOT/cmd/vifl" ] || OUT_OF_DATE=${OUT_OF_DATE/ vifl/}
	read -r -a names <<<"$OUT_OF_DATE"
	total=${#names[@]}
	[ "$total" -gt 0 ] || return 0
	need_space "$ROOT" 1200 "building and keeping the programs in bin"
	# What changes while we build must look newer than the stamp.
	build_key >"$TMP/built"
	mkdir -p -- "$ROOT/bin"
	for name in "${names[@]}"; do
		count=$((count + 1))
		say "vitess: building $name … $count of $total"
		if [[ " $VITESS_THEIRS " == *" $name "* ]]; then
			build_one "$name" "vitess.io/vitess/go/cmd/$name"
		else
			build_one "$name" "./cmd/$name"
		fi
	done
	mv -- "$TMP/built" "$ROOT/.tools/built"
	DONE=1
}
