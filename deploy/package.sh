#!/bin/sh
# deploy/package.sh [VERSION]: builds var/dist/dted_VERSION_ARCH.deb for amd64 and arm64 (ARCHS overrides). Needs Go alone.
set -eu
cd "$(dirname "$0")/.."
VERSION=${1:-0.0.0~dev}
# Later releases of nfpm need a module that not every proxy serves.
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
export VERSION CGO_ENABLED=0
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)} # the same source, the same package
export SOURCE_DATE_EPOCH
for ARCH in ${ARCHS:-amd64 arm64}; do
	BIN=var/dist/$ARCH
	export ARCH BIN
	mkdir -p "$BIN"
	GOOS=linux GOARCH=$ARCH go build $(cat deploy/release.flags) -o "$BIN/" ./cmd/dted ./cmd/dtectl
	go run "$nfpm" package --config deploy/nfpm.yaml --packager deb --target "var/dist/dted_${VERSION}_$ARCH.deb"
done
