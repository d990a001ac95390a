#!/bin/bash
# Installs the package into a clean Debian root that runs its own systemd, and types the runbook's own commands there: install, first
# sale, secrets, certificate, backup, dead box. Upgrades, kills, removes and purges, and compares the data after each step. Ends with
# a table of times. Says what is missing and ends with 0 where it cannot run. Takes some minutes, and some more the first time.
# The Debian root (of mmdebstrap, from a Debian mirror) is kept in var/tools.
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

table=
began=
step() { # closes the step before
	local now=${EPOCHREALTIME/./}
	[ -z "$began" ] || table+=$(printf '%7.1f  %s' "$(((now - began) / 100000))e-1" "$doing")$'\n'
	began=$now doing=$*
	echo "== $*"
}
# The nth block of a section of the runbook, and a command of its sentences, which must be there.
section() { awk -v want="$1" '/^#+ /{t=$0; sub(/^#+ /,"",t); here=(t==want)} here' deploy/RUNBOOK.md; }
block() { section "$1" | awk -v n="$2" '/^ *```sh/{k++; on=(k==n); next} /^ *```/{on=0} on'; }
types() { # section, number of the block or text of the line, pairs of what an operator fills in…
	local text order=$2
	if [[ $order =~ ^[0-9]+$ ]]; then text=$(block "$1" "$order"); else
		text=$(section "$1" | tr '\n' ' ' | tr -s ' ' | grep -oF -- "$order" | head -1) || true
	fi
	[ -n "$text" ] || fail "the runbook's section $1 has no order $order"
	shift 2
	while [ $# -gt 1 ]; do text=${text//"$1"/"$2"}; shift 2; done
	inside bash -e -o pipefail -c "$text" || fail "$text"
}
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
known() { [[ $(get 00000000-0000-4000-8000-000000000000) != *UNAUTHORIZED* ]]; } # a new token is live within a second or so
ready() { nsenter -t "$leader" -n curl -sf --max-time 5 http://127.0.0.1:8081/readyz; }
install() { # as the runbook: apt install ./dted_VERSION_ARCH.deb
	cp "var/dist/dted_$1_$arch.deb" "$root/root/"
	inside env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold "/root/dted_$1_$arch.deb" 2>&1
}

step "install"
[[ $(install 1.0.0) == *"not initialised"* ]] || fail "the package does not say what is next"
inside systemctl is-enabled --quiet dted || fail "not enabled"
active && fail "runs before it is initialised"
[ "$(stat -c '%a %U' "$root/var/lib/dted")" = "700 $(stat -c %U "$root/var/lib/dted")" ] || fail "the data's folder is open to others"
inside test "$(inside stat -c %U /var/lib/dted)" = dted || fail "the data's folder is not dted's"

step "initialise, as the runbook says"
inside install -d -o dted -m 700 /media/dted # the second medium
sed -i -e 's|^mark = "[^"]*"|mark = "/media/dted/mark"|' -e 's|^# second_copy|second_copy|' -e 's|^ambiente = ""|ambiente = "00"|' -e 's|^url = .*|url = "http://127.0.0.1:9"|' \
	-e 's|responsible = {nombre = "", tipo_documento = "13", numero_documento = ""}|responsible = {nombre = "María López", tipo_documento = "13", numero_documento = "012345678"}|' \
	-e 's|^slug = ""|slug = "la-ceiba"|' -e 's|^nit = ""|nit = "06141804941035"|' -e 's|^nrc = ""|nrc = "2390516"|' \
	-e 's|^nombre = ""|nombre = "La Ceiba"|' -e 's|^nombre_comercial = ""|nombre_comercial = "La Ceiba"|' \
	-e 's|^codigo_actividad = ""|codigo_actividad = "47111"|' -e 's|^actividad_economica = ""|actividad_economica = "Supermercado"|' \
	-e 's|^telefono = ""|telefono = "22571234"|' -e 's|^correo = ""|correo = "dte@laceiba.example"|' \
	-e 's|^departamento = ""|departamento = "06"|' -e 's|^municipio = ""|municipio = "23"|' -e 's|^distrito = ""|distrito = "14"|' \
	-e 's|^complemento = ""|complemento = "Calle Arce 1020"|' "$root/etc/dted/dted.toml"
# Nobody sits at a terminal here; all else of systemd is the real one.
printf '#!/bin/sh\nprintf secreto-mh.2026\n' >"$root/usr/local/bin/systemd-ask-password"
chmod 755 "$root/usr/local/bin/systemd-ask-password"
# MH's certificate, in a folder of root's alone.
pem=$(openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 2>/dev/null)
private=$(openssl pkcs8 -topk8 -nocrypt -outform DER <<<"$pem" | base64 -w0)
public=$(openssl pkey -pubout -outform DER <<<"$pem" | base64 -w0)
clave=$(printf 'clave privada' | sha512sum | cut -d' ' -f1)
crt() { # not before, not after
	printf '<CertificadoMH><_id>0</_id><nit>06141804941035</nit><publicKey><keyType>PUBLIC</keyType><algorithm>RSA</algorithm><encodied>%s</encodied><format>X.509</format><clave>%s</clave></publicKey><privateKey><keyType>PRIVATE</keyType><algorithm>RSA</algorithm><encodied>%s</encodied><format>PKCS#8</format><clave>%s</clave></privateKey><activo>true</activo><certificado><basicEstructure><validity><notBefore>%s.000000000</notBefore><notAfter>%s.000000000</notAfter></validity></basicEstructure></certificado></CertificadoMH>' \
		"$public" "$clave" "$private" "$clave" "$(date -d "$1" +%s)" "$(date -d "$2" +%s)"
}
mkdir -m 700 -p "$root/root/mh"
crt -90days -1day >"$root/root/mh/expired.crt"
crt -1day +60days >"$root/root/mh/06141804941035.crt"
echo 'clave privada' >"$root/root/mh/password"
given=("--certificate FILE.crt" "--certificate /root/mh/06141804941035.crt" "--certificate-password FILE" "--certificate-password /root/mh/password")
types Install 1
said=$(inside dtectl init --certificate /root/mh/expired.crt --certificate-password /root/mh/password 2>&1 || true)
[[ $said == *"the certificate ended on"* ]] || fail "an expired certificate: $said"
types Install 'dtectl init --certificate FILE.crt --certificate-password FILE' "${given[@]}"
types Install 'rm -r /run/credentials/dted.service'
dtectl_inside() { inside dtectl "$@"; }
types Install 'systemctl start dted'
token=$(types Install 'dtectl token new --point-of-sale 1 --name caja-1')
foreign=$(inside find /var/lib/dted /media/dted ! -user dted)
[ -z "$foreign" ] || fail "root's dtectl left $foreign"

step "start: systemd waits for READY=1"
active || { inside journalctl -u dted --no-pager | tail -20; fail "does not start"; }
active || fail "not active"
ready >/dev/null || fail "not ready"
inside systemd-analyze security --no-pager dted | tail -1
if grep -rq "$(inside cat /run/credentials/dted.service/passphrase)" "$root/etc" "$root/var"; then
	fail "the passphrase lies on the disk"
fi

step "sell without MH"
await 10 "the new token is not known" known
sale=$(api https://127.0.0.1:8080/dte/dte01 -H 'Content-Type: application/json' -H 'Idempotency-Key: 1' -d @deploy/examples/dte01.json)
[[ $sale == *CONTINGENCIA* ]] || fail "the sale answered ${sale:0:300}"
code=$(sed -E 's/.*"codigoGeneracion":"([-0-9A-F]{36})".*/\1/' <<<"${sale%%\"numeroControl\"*}")
document=$(get "$code")

step "doctor, after the first sale"
inside dtectl doctor >"$root/root/doctor" 2>&1 || true
cat "$root/root/doctor"
if grep '^fail' "$root/root/doctor" | grep -qv '^fail  authority'; then fail "doctor finds more than that MH is away"; fi
[ "$(inside dtectl --version)$(inside dted -version)" = 1.0.01.0.0 ] || fail "the version is $(inside dtectl --version)"
nsenter -t "$leader" -n curl -sf http://127.0.0.1:8081/metrics | grep -qx 'dte_build_info{version="1.0.0"} 1' || fail "dte_build_info"

step "secrets of mail and archive, as the runbook says"
types "Mail and archive" 1
[ "$(inside cat /run/credentials/dted.service/mail.password)" = secreto-mh.2026 ] || fail "the unit does not load the secret"
ready >/dev/null || fail "not ready"
types "MH's password" 1

step "backup, as the runbook says"
types Backup 'dtectl backup /media/dted/backup/$(date +%F)'

step "renew the certificate, as the runbook says"
types "Certificate renewal" 1 "${given[@]}"
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
api https://127.0.0.1:8080/dte/dte01 -H 'Content-Type: application/json' -H 'Idempotency-Key: 2' -d @deploy/examples/dte01.json | grep -q '"numeroControl":"DTE-01-S001P001-000000000000002"' ||
	fail "no sale by the rules of before, with the package's new key"

step "dead box, as the runbook says: another disk, the card lives, another package"
inside systemctl kill -s KILL dted
inside systemctl stop dted
cp "$root/etc/dted/dted.toml" "$root/root/dted.toml"
inside sh -c 'dpkg --purge dted >/dev/null; rm -rf /var/lib/dted /etc/dted'
install 1.0.1 >/dev/null
inside systemd-tmpfiles --create dted.conf
cp "$root/root/dted.toml" "$root/etc/dted/dted.toml"
types Install 1
types "Dead box" 1
types "Dead box" 2 "${given[@]}"
token=$(types Install 'dtectl token new --point-of-sale 1 --name caja-1')
ready >/dev/null || fail "not ready"
await 10 "the new token is not known" known
[ "$(get "$code")" = "$document" ] || fail "the document is gone"
api https://127.0.0.1:8080/dte/dte01 -H 'Content-Type: application/json' -H 'Idempotency-Key: 3' -d @deploy/examples/dte01.json | grep -qE '"numeroControl":"DTE-01-S001P001-00000000000000[3-9]"' ||
	fail "the new box does not go on behind the last number"
foreign=$(inside find /var/lib/dted /media/dted ! -user dted)
[ -z "$foreign" ] || fail "root's dtectl left $foreign"

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
[ "$(stat -c %s var/dist/$arch/dted)" -le $((40 * 1048576)) ] || fail "dted is above 40 MiB"
step end
printf "seconds  step\n%s" "$table"
echo "1 passed, 0 failed"
