#!/bin/sh
# Installs tollgate @VERSION@ for one user: downloads the archive for this system, compares its SHA-256, and puts the
# program into ~/.local/bin. Changes nothing else and needs no root.
#
#   TOLLGATE_INSTALL_DIR   another folder for the program
#   TOLLGATE_DOWNLOADS     another address of the files of this release
set -eu

version="@VERSION@"
downloads="${TOLLGATE_DOWNLOADS:-@DOWNLOADS@}"
folder="${TOLLGATE_INSTALL_DIR:-$HOME/.local/bin}"

fail() {
	printf 'error: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
	exit 1
}

case "$downloads" in
https://* | http://127.0.0.1:*) ;;
*) fail "\`$downloads\` is not an https address" ;;
esac

case "$(uname -s)-$(uname -m)" in
Linux-x86_64 | Linux-amd64) target=x86_64-unknown-linux-musl ;;
Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
Darwin-x86_64) target=x86_64-apple-darwin ;;
Darwin-arm64) target=aarch64-apple-darwin ;;
*) fail "there is no build for $(uname -s) on $(uname -m)" "build it from source: the README says how" ;;
esac
target="${TOLLGATE_TARGET:-$target}"
archive="tollgate-$version-$target.tar.gz"

# With `.XXXXXX`, because macOS' mktemp wants a template.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tollgate-install.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

download() {
	if command -v curl >/dev/null 2>&1; then
		curl --fail --silent --show-error --location --proto '=https,http' --proto-redir '=https' --output "$2" "$1"
	elif command -v wget >/dev/null 2>&1; then
		wget --quiet --output-document="$2" "$1"
	else
		fail "neither curl nor wget is installed" "install one of them"
	fi || fail "cannot download \`$1\`"
}

sha256() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d ' ' -f 1
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 256 "$1" | cut -d ' ' -f 1
	else
		fail "neither sha256sum nor shasum is installed" "install one of them"
	fi
}

download "$downloads/SHA256SUMS" "$scratch/SHA256SUMS"
download "$downloads/$archive" "$scratch/$archive"

expected=$(awk -v name="$archive" '$2 == name { print $1 }' "$scratch/SHA256SUMS")
[ -n "$expected" ] || fail "\`$archive\` is not listed in SHA256SUMS"
actual=$(sha256 "$scratch/$archive")
[ "$actual" = "$expected" ] || fail "\`$archive\` has the wrong SHA-256: $actual, expected $expected" \
	"nothing was installed; try again, and report it if it happens twice"

tar -xzf "$scratch/$archive" -C "$scratch"
mkdir -p "$folder"
# A rename replaces a running program without touching the file that it runs from.
cp "$scratch/tollgate-$version-$target/tollgate" "$folder/.tollgate.new"
chmod 755 "$folder/.tollgate.new"
"$folder/.tollgate.new" --version >/dev/null || {
	rm -f "$folder/.tollgate.new"
	fail "the program does not start on this system"
}
mv -f "$folder/.tollgate.new" "$folder/tollgate"

printf 'installed tollgate %s as %s\n' "$version" "$folder/tollgate"
case ":$PATH:" in
*":$folder:"*) printf 'next: tollgate up --demo\n' ;;
*) printf 'next: add %s to PATH, then: tollgate up --demo\n' "$folder" ;;
esac
