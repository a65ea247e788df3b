#!/bin/sh
# collect-mysql.sh FOLDER: puts the MySQL server of the image it runs in into FOLDER, with the
# loader and the libraries it needs, in the layout of scripts/setup-mysql.sh, so that it runs on
# another base. Where it looks for plugins and messages stays the same below its basedir.
set -eu
out=$1
fail() { echo "collect-mysql: $*" >&2; exit 1; }

find_program() {
	for dir in /usr/sbin /usr/bin /usr/libexec /usr/local/bin; do
		[ -x "$dir/$1" ] && [ ! -d "$dir/$1" ] && echo "$dir/$1" && return
	done
	return 1
}

# libraries FILE: the paths of the libraries it is loaded with.
libraries() { "$loader" --list "$1" | sed -nE 's/^.* => (\/[^ ]+) \(.*$/\1/p'; }

for loader in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.*; do [ -e "$loader" ] && break; done
[ -e "$loader" ] || fail "found no loader in /lib64 or /lib, expected an image with glibc"
find_program mysqld >/dev/null || fail "found no mysqld, expected an image with a MySQL server (MYSQL_IMAGE)"

mkdir -p "$out/bin" "$out/lib/programs" "$out/lib/private/loader"
cp -L "$loader" "$out/lib/private/"
cat >"$out/bin/mysqld" <<'EOF'
#!/bin/sh
# Runs the program of this name by the loader and with the libraries it was built for.
self=$(readlink -f -- "$0") && root=${self%/bin/*} && name=${self##*/} || exit 1
exec "$root/lib/private/loader/$name" --argv0 "$root/bin/$name" \
	--library-path "$root/lib/private" "$root/lib/programs/$name" "$@"
EOF
chmod 755 "$out/bin/mysqld"
for name in mysqld mysql mysqldump mysqladmin mysqlbinlog; do
	path=$(find_program "$name") || { [ "$name" = mysqlbinlog ] && continue; fail "found no $name, expected it beside mysqld"; }
	cp -L "$path" "$out/lib/programs/$name"
	[ "$name" = mysqld ] || cp "$out/bin/mysqld" "$out/bin/$name"
	ln -s "../${loader##*/}" "$out/lib/private/loader/$name"
	for lib in $(libraries "$path"); do cp -nL "$lib" "$out/lib/private/" || :; done
done
for plugins in /usr/lib64/mysql/plugin /usr/lib/mysql/plugin /usr/lib/*-linux-*/mysql/plugin; do
	[ -d "$plugins" ] || continue
	mkdir -p "$out${plugins#/usr}"
	cp -RL "$plugins/." "$out${plugins#/usr}/"
	rm -rf "$out${plugins#/usr}/debug"
	for plugin in "$plugins"/*.so; do
		for lib in $(libraries "$plugin"); do cp -nL "$lib" "$out/lib/private/" || :; done
	done
done
mkdir -p "$out/share"
for share in /usr/share/mysql /usr/share/mysql-[0-9]*; do
	[ -d "$share" ] && cp -RL "$share" "$out/share/"
done
printf '%s\n' '[mysqld]' '# The built-in default is a folder which this server does not have.' 'secure-file-priv=' >"$out/mysqld.cnf"
cp "$out/mysqld.cnf" "$out/mysqld.cnf.in"
"$out/bin/mysqld" --no-defaults --version
