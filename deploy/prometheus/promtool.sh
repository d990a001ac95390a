#!/bin/sh
# Builds Prometheus' promtool into var/tools, from the Go module proxy. Its module holds a replace directive, so that
# `go run …@version` refuses it; an empty module of its own takes it. Without service discovery it needs half the code.
set -eu
version=v0.315.0 # Prometheus 3.15
cd "$(dirname "$0")/../.."
out=$PWD/var/tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
cd "$work"
go mod init promtool >/dev/null 2>&1
go get -tool "github.com/prometheus/prometheus/cmd/promtool@$version"
CGO_ENABLED=0 go build -tags remove_all_sd -ldflags='-s -w' -o "$out/promtool" github.com/prometheus/prometheus/cmd/promtool
"$out/promtool" --version
