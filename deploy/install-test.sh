#!/bin/bash
# Installs the package into a clean Debian root that runs its own systemd, initialises a branch, sells, upgrades, kills,
# removes and purges, and compares the data after each step. Says what is missing and ends with 0 where it cannot run.
# Takes two minutes, three more the first time. The Debian root is kept in var/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "install test skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "not root"
for tool in mmdebstrap systemd-nspawn nsenter openssl curl; do
	command -v $tool >/dev/null || skip "no $tool (Debian: mmdebstrap systemd-container util-linux openssl curl)"
done
arch=$(dpkg --print-architecture)
base=var/tools/debian.tar
mkdir -p var/tools
if [ ! -e $base ]; then
	mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,ca-certificates bookworm $base.new || skip "no Debian mirror"
	mv $base.new $base
fi

step() { echo "== $*"; }
fail() { echo "FAIL: $*"; exit 1; }

step "two versions of the package"
ARCHS=$arch deploy/package.sh 1.0.0
ARCHS=$arch deploy/package.sh 1.0.1

step "boot a clean Debian"
root=$(mktemp -d /var/tmp/dted-install.XXXXXX)
nspawn=
cleanup() {
	if [ -n "$nspawn" ]; then
		kill -9 "${leader:-$nspawn}" "$nspawn" 2>/dev/null || true
		wait "$nspawn" 2>/dev/null || true
	fi
	rm -rf "$root"
}
trap cleanup EXIT
tar -xf $base -C "$root"
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=$([ -e /sys/fs/cgroup/cgroup.controllers ] && echo 1 || echo 0) \
	systemd-nspawn --quiet -D "$root" --register=no --keep-unit --private-network --boot --console=pipe </dev/null >"$root.log" 2>&1 &
nspawn=$!
inside() { nsenter -t "$leader" -m -u -i -p -n -- "$@"; }
await() { # seconds, what, command…
	local n=$1 what=$2
	shift 2
	for _ in $(seq $((n * 5))); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.2
	done
	fail "$what"
}
leader=
for _ in $(seq 100); do
	leader=$(pgrep -P $nspawn -x systemd || true)
	[ -n "$leader" ] && break
	kill -0 $nspawn 2>/dev/null || skip "systemd-nspawn does not run here: $(tail -1 "$root.log")"
	sleep 0.2
done
rm -f "$root.log"
[ -n "$leader" ] || skip "systemd does not boot in a container here"
await 60 "the container boots" inside systemctl is-system-running
active() { inside systemctl is-active --quiet dted; }
data() { (cd "$root/var/lib/dted" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
api() { nsenter -t "$leader" -n curl -sS --cacert "$root/var/lib/dted/tls/ca.pem" --max-time 60 -H "x-api-token: $token" "$@"; }
get() { api "https://127.0.0.1:8080/dte/documento/$1"; }
ready() { nsenter -t "$leader" -n curl -sf --max-time 5 http://127.0.0.1:8081/readyz; }
install() {
	cp "var/dist/dted_$1_$arch.deb" "$root/root/dted.deb"
	inside env DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /root/dted.deb
}

step "install"
install 1.0.0 | grep -q 'not initialised' || fail "the package does not say what is next"
inside systemctl is-enabled --quiet dted || fail "not enabled"
active && fail "runs before it is initialised"
[ "$(stat -c '%a %U' "$root/var/lib/dted")" = "700 $(stat -c %U "$root/var/lib/dted")" ] || fail "the data's folder is open to others"
inside test "$(inside stat -c %U /var/lib/dted)" = dted || fail "the data's folder is not dted's"

step "initialise, as the runbook says"
rules=var/tools/rules
mkdir -p $rules
dtectl=var/dist/$arch/dtectl
[ -e $rules/key ] || $dtectl rules keygen $rules/key
for manifest in plugins/catalogues/manifest.json plugins/*/v*/manifest.json; do
	name=${manifest#plugins/}
	$dtectl rules build "${name%/manifest.json}" --key $rules/key --out "$root/var/lib/dted/rules" >/dev/null
done
cp $rules/key.pub "$root/etc/dted/central-it.pub"
chmod 644 "$root/etc/dted/central-it.pub"
inside install -d -o dted -m 700 /media/dted # the second medium
sed -i -e 's|^mark = "[^"]*"|mark = "/media/dted/mark"|' -e 's|^ambiente = ""|ambiente = "00"|' -e 's|^url = .*|url = "http://127.0.0.1:9"|' \
	-e 's|responsible = {nombre = "", tipo_documento = "13", numero_documento = ""}|responsible = {nombre = "María López", tipo_documento = "13", numero_documento = "012345678"}|' \
	-e 's|^slug = ""|slug = "la-ceiba"|' -e 's|^nit = ""|nit = "06141804941035"|' -e 's|^nrc = ""|nrc = "2390516"|' \
	-e 's|^nombre = ""|nombre = "La Ceiba"|' -e 's|^nombre_comercial = ""|nombre_comercial = "La Ceiba"|' \
	-e 's|^codigo_actividad = ""|codigo_actividad = "47111"|' -e 's|^actividad_economica = ""|actividad_economica = "Supermercado"|' \
	-e 's|^telefono = ""|telefono = "22571234"|' -e 's|^correo = ""|correo = "dte@laceiba.example"|' \
	-e 's|^departamento = ""|departamento = "06"|' -e 's|^municipio = ""|municipio = "23"|' -e 's|^distrito = ""|distrito = "14"|' \
	-e 's|^complemento = ""|complemento = "Calle Arce 1020"|' "$root/etc/dted/dted.toml"
inside sh -ec '
	install -d -o dted -m 700 /run/credentials/dted.service
	cd /run/credentials/dted.service
	head -c 32 /dev/urandom | base64 -w0 > passphrase
	echo secret > authority.password
	for name in passphrase authority.password; do
		systemd-creds encrypt --name=$name $name /etc/dted/$name.cred
	done
	chown dted passphrase'
openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$root/root/key.pem" 2>/dev/null ||
	openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$root/root/key.pem" 2>/dev/null
inside sh -ec 'chmod 755 /root; chown dted /root/key.pem /var/lib/dted/rules/*
	runuser -u dted -- dtectl init --certificate /root/key.pem
	rm -r /run/credentials/dted.service'
dtectl_inside() { inside runuser -u dted -- dtectl "$@"; }
token=$(dtectl_inside token new --point-of-sale 1 --name caja-1)

step "start: systemd waits for READY=1"
inside systemctl start dted || { inside journalctl -u dted --no-pager | tail -20; fail "does not start"; }
active || fail "not active"
ready >/dev/null || fail "not ready"
inside systemd-analyze security --no-pager dted | tail -1
if grep -rq "$(inside cat /run/credentials/dted.service/passphrase)" "$root/etc" "$root/var"; then
	fail "the passphrase lies on the disk"
fi

step "sell without MH"
sale=$(api https://127.0.0.1:8080/dte/dte01 -H 'Content-Type: application/json' -H 'Idempotency-Key: 1' -d @deploy/examples/dte01.json)
[[ $sale == *CONTINGENCIA* ]] || fail "the sale answered ${sale:0:300}"
code=$(sed -E 's/.*"codigoGeneracion":"([-0-9A-F]{36})".*/\1/' <<<"${sale%%\"numeroControl\"*}")
document=$(get "$code")

step "renew the certificate, as the runbook says"
inside sh -ec '
	cd /var/lib/dted
	runuser -u dted -- mkdir -m 700 renewal
	sed -E "s#\"/(var/lib|media)/dted/#\"/var/lib/dted/renewal/#" /etc/dted/dted.toml | runuser -u dted -- tee renewal/dted.toml >/dev/null
	runuser -u dted -- dtectl -c /var/lib/dted/renewal/dted.toml init --certificate /root/key.pem >/dev/null
	runuser -u dted -- mv renewal/signing.jwe signing.jwe
	systemctl restart dted
	rm -r renewal /root/key.pem'
ready >/dev/null || fail "not ready with the new key"
[ "$(get "$code")" = "$document" ] || fail "the document changed"

step "the watchdog: a process that hangs is started anew"
pid=$(inside systemctl show -P MainPID dted)
inside sh -c "kill -STOP $pid"
restarted() { [ "$(inside systemctl show -P MainPID dted)" != "$pid" ] && ready; }
await 90 "the watchdog does not bite" restarted
[ "$(get "$code")" = "$document" ] || fail "the document changed"

step "upgrade while it runs"
pid=$(inside systemctl show -P MainPID dted)
install 1.0.1 >/dev/null
await 60 "the new version does not run" restarted
[ "$(get "$code")" = "$document" ] || fail "the document changed"
inside systemctl is-enabled --quiet dted || fail "not enabled any more"

step "upgrade while it is stopped"
inside systemctl stop dted
before=$(data)
install 1.0.0 >/dev/null
active && fail "the upgrade started what an operator had stopped"
[ "$(data)" = "$before" ] || fail "the upgrade touched the data"

step "remove, purge"
inside systemctl start dted
inside dpkg -r dted
active && fail "runs after its removal"
before=$(data)
[ -e "$root/usr/bin/dted" ] && fail "not removed"
cp "$root/etc/dted/dted.toml" "$root/root/dted.toml"
inside dpkg --purge dted
[ "$(data)" = "$before" ] || fail "the purge touched the data"
inside id dted >/dev/null || fail "the account is gone, and the data has no owner"
[ -e "$root/etc/dted/passphrase.cred" ] || fail "the purge took the passphrase"

step "install again: the branch goes on"
install 1.0.1 >/dev/null
cp "$root/root/dted.toml" "$root/etc/dted/dted.toml"
inside systemctl restart dted
[ "$(get "$code")" = "$document" ] || fail "the document is gone"
inside systemctl stop dted
dtectl_inside fsck | tail -1 | grep -q 'no problem found' || fail "fsck"
for f in dted dtectl; do
	size=$(stat -c %s var/dist/$arch/$f)
	echo "$f $((size / 1048576)) MiB"
done
[ "$(stat -c %s var/dist/$arch/dted)" -le $((25 * 1048576)) ] || fail "dted is above 25 MiB"
echo "1 passed, 0 failed"
