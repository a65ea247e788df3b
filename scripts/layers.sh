#!/usr/bin/env bash
# Imports go down the floors of the house, never up and never sideways within a floor but
# where a parent folder owns the children. A package that no floor names is an error too, so
# that a new room gets its place when it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
module=$(go list -m)
go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' ./... |
	awk -v m="$module/" '
	function floor(p) {
		if (p ~ /^(cmd|e2e|docker)(\/|$)/) return 9
		if (p ~ /^pkg\/(web|fleet)(\/|$)/) return 5
		if (p ~ /^workflows\/shardmove(\/|$)/) return 4.5
		if (p ~ /^workflows\/engine(\/|$)/) return 4
		if (p ~ /^pkg\/(seed|stream|diff|guard|route|audit|devcluster|load)(\/|$)/) return 3
		if (p ~ /^pkg\/(legacy|mains|vitess|state|mysqld|etcd)(\/|$)/) return 2
		if (p ~ /^pkg\/(config|position|shardid|mysqlconn|schema|cert|runas|child|teammap)(\/|$)/) return 1
		if (p ~ /^vindexes(\/|$)/) return 1.5
		return -1
	}
	function room(p) { n = split(p, parts, "/"); return n > 1 ? parts[1] "/" parts[2] : parts[1] }
	{
		if (index($1, m) != 1) next
		from = substr($1, length(m) + 1)
		if (floor(from) < 0) { print "layers: " from " stands on no floor: give it one in scripts/layers.sh"; bad = 1; next }
		if (index($2, m) != 1) next
		to = substr($2, length(m) + 1)
		if (room(from) == room(to)) next
		# What is linked into servers of other people stays small.
		if (from ~ /^vindexes(\/|$)/ && to !~ /^pkg\/(shardid|teammap)$/) { print "layers: " from " imports " to ", expected pkg/shardid and pkg/teammap only"; bad = 1 }
		if (floor(to) > floor(from)) { print "layers: " from " imports " to ", which stands above it"; bad = 1 }
	}
	END { exit bad }'
