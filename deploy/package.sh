#!/bin/sh
# deploy/package.sh [VERSION]: builds var/dist/dted_VERSION_ARCH.deb for amd64 and arm64 (ARCHS overrides). Needs Go alone.
# The package carries the rule bundles of this source, signed by RULES_KEY (a file of `dtectl rules keygen`), or, where none is
# given, by a key that is made for this one build in memory and destroyed: its public half is in the package, and nobody can sign
# anything more with it. With RULES_KEY the same source makes the same package.
set -eu
cd "$(dirname "$0")/.."
VERSION=${1:-0.0.0~dev}
# Later releases of nfpm need a module that not every proxy serves.
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
export VERSION CGO_ENABLED=0
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)} # the same source, the same package
export SOURCE_DATE_EPOCH

shared=var/dist/share
rm -rf $shared
mkdir -p $shared/rules $shared/rules-keys
tools=$(mktemp -d /dev/shm/dted-package.XXXXXX 2>/dev/null || mktemp -d)
trap 'rm -rf "$tools"' EXIT
trap 'exit 1' INT TERM
go build -o "$tools/dtectl" ./cmd/dtectl
if [ -n "${RULES_KEY:-}" ]; then
	key=$RULES_KEY
	signed="by the key of those who built this package."
else
	key=$tools/key
	"$tools/dtectl" rules keygen "$key"
	signed="by a key made for this one build and destroyed after it."
fi
for manifest in plugins/catalogues/manifest.json plugins/*/v*/manifest.json; do
	name=${manifest#plugins/}
	"$tools/dtectl" rules build "${name%/manifest.json}" --key "$key" --key-id package --out $shared/rules >/dev/null
done
cp "$key.pub" $shared/rules-keys/package.pub
rm -f "$tools/key"
cat >$shared/rules-keys/README <<TEXT
The rules in /usr/share/dted/rules are those of dted $VERSION. They were signed $signed
Its public half is package.pub, SHA-256 $(sha256sum $shared/rules-keys/package.pub | cut -c 1-64).
dted believes it because dted.toml names it under [[rules.key]]. A chain with a key of its own replaces it:
see "Rules key" in /usr/share/doc/dted/RUNBOOK.md.
TEXT
chmod -R u=rwX,go=rX $shared

for ARCH in ${ARCHS:-amd64 arm64}; do
	BIN=var/dist/$ARCH
	export ARCH BIN
	mkdir -p "$BIN"
	GOOS=linux GOARCH=$ARCH go build -trimpath -ldflags="-s -w -X dtegate/cmd/version.packaged=$VERSION" -o "$BIN/" ./cmd/dted ./cmd/dtectl
	chmod 755 "$BIN" "$BIN/dted" "$BIN/dtectl"
	go run "$nfpm" package --config deploy/nfpm.yaml --packager deb --target "var/dist/dted_${VERSION}_$ARCH.deb"
done
