#!/bin/sh
# dte.sh: a till's client in POSIX shell, awk and curl.
#
#   dte.sh emitir dte01 venta-000123.json    issue a sale (dte01 dte03 dte05 dte06 dte07 dte14 retorno)
#   dte.sh seguir [--una-vez]                results that came late, as they come: code, state, seal
#   dte.sh imprimir CODIGO [ticket58] >/dev/usb/lp0
#
# The file's name without .json is the sale's Idempotency-Key: name it after what the till never uses twice, such as its
# own ticket number. The same command again is the same sale, after a power cut too: run it until it ends with 0, 2 or 3.
#
#   0  issued: PROCESSED, or CONTINGENCIA (print it; its seal comes with seguir)
#   2  refused: nothing was issued. Correct the file, keep its name. (422: that name was sold before, with other content)
#   3  REJECTED by MH: the number is spent. Correct the sale and sell it under another name.
#   75 no answer in DTE_PLAZO: run the same command again
#
# DTE_URL (https://dte.tienda.lan:8080), DTE_TOKEN_FILE (one line), DTE_CA (PEM of the box's own authority), DTE_PREFER
# (seconds that a customer waits for MH), DTE_PLAZO (300 s), DTE_PAUSA (1 s, doubling up to 30), DTE_TIMEOUT (75 s, above
# the appliance's own 60), DTE_CURSOR (./dte.cursor)
set -eu
umask 077
: "${DTE_URL:?}" "${DTE_TOKEN_FILE:?}"
pause=${DTE_PAUSA:-1}
token=$(cat "$DTE_TOKEN_FILE")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# ask METHOD PATH [curl options]: sets $status (000 without a whole answer), $work/head and $work/body. The token goes
# through stdin: arguments are seen by everybody on the machine.
ask() {
	method=$1 path=$2
	shift 2
	: >"$work/head"
	status=$(printf 'header = "x-api-token: %s"\n' "$token" |
		curl --config - --silent --noproxy '*' ${DTE_CA:+--cacert "$DTE_CA"} --connect-timeout 3 --max-time "${DTE_TIMEOUT:-75}" \
			--request "$method" --dump-header "$work/head" --output "$work/body" --write-out '%{http_code}' "$@" "$DTE_URL$path") || status=000
}

# again: whether the same request may have another answer later.
again() {
	case $status in 000 | 408 | 429 | 5??) return 0 ;; esac
	return 1
}

# rest N: Retry-After if it was said, else a pause that doubles with each of N tries, of a random length so that the
# tills of a store do not come all at once.
rest() {
	said=$(awk 'tolower($1) == "retry-after:" { print int($2) }' "$work/head")
	if [ -z "$said" ]; then
		said=$(awk -v n="$1" -v p="$pause" -v seed="$$" 'BEGIN { srand(seed + n); d = p * 2 ^ (n - 1); if (d > 30) d = 30; print d * (0.5 + rand() / 2) }')
	fi
	sleep "$said"
}

# text NAME: the first member of that name whose value is a text. The record's own come before those of dteJson, and a
# quote within a text is escaped, so that no text is taken for a member.
text() {
	awk -v name="\"$1\":\"" '{
		if (!(at = index($0, name))) next
		s = substr($0, at + length(name))
		match(s, /^([^"\\]|\\.)*/)
		s = substr(s, 1, RLENGTH)
		gsub(/\\"/, "\"", s); gsub(/\\\\/, "\\", s)
		print s; exit
	}' "$work/body"
}

show() {
	for name in estado codigoGeneracion numeroControl selloRecibido total fecEmi horEmi; do
		echo "$name=$(text "$name")"
	done
	ambiente=00
	[ "$(text ambiente)" = PROD ] && ambiente=01
	echo "consulta=https://admin.factura.gob.sv/consultaPublica?ambiente=$ambiente&codGen=$(text codigoGeneracion)&fechaEmi=$(text fecEmi)"
}

emitir() {
	kind=$1 file=$2
	key=$(basename "$file" .json)
	set -- --header 'Content-Type: application/json' --header "Idempotency-Key: $key" --data-binary "@$file"
	[ -z "${DTE_PREFER:-}" ] || set -- "$@" --header "Prefer: wait=$DTE_PREFER"
	end=$(($(date +%s) + ${DTE_PLAZO:-300})) n=0
	while ask POST "/dte/$kind" "$@"; again; do
		n=$((n + 1))
		if [ "$(date +%s)" -ge "$end" ]; then
			echo "dte.sh: sin respuesta ($status); repita la misma orden, la venta no se duplica" >&2
			return 75
		fi
		rest "$n"
	done
	if [ "$status" != 201 ]; then
		echo "dte.sh: $status $(text type): $(text message)" >&2
		awk '{ while (match($0, /\{"path":"[^"]*","code":"[^"]*","message":"([^"\\]|\\.)*"/)) {
			s = substr($0, RSTART + 9, RLENGTH - 9); $0 = substr($0, RSTART + RLENGTH)
			sub(/","code":"/, " ", s); sub(/","message":"/, ": ", s); sub(/"$/, "", s); print "  " s } }' "$work/body" >&2
		return 2
	fi
	cp "$work/body" "${file%.json}.dte.tmp" && mv "${file%.json}.dte.tmp" "${file%.json}.dte"
	show
	case $(text estado) in
	REJECTED)
		echo "dte.sh: $(text errorTecnico)" >&2
		return 3
		;;
	CONTINGENCIA) echo "leyenda=EMITIDO EN CONTINGENCIA: sin sello todavía; se transmitirá a Hacienda" ;;
	esac
}

# seguir prints before it moves the cursor: after a power cut a result may come twice, and never not at all.
seguir() {
	cursor=${DTE_CURSOR:-dte.cursor} wait=50 n=0
	[ "${1:-}" = --una-vez ] && wait=0
	while :; do
		from=$(cat "$cursor" 2>/dev/null || echo 0)
		ask GET "/dte/cambios?desde=$from&wait=$wait"
		if again; then
			n=$((n + 1))
			rest "$n"
			continue
		fi
		n=0
		if [ "$status" != 200 ]; then
			echo "dte.sh: $status $(text message)" >&2
			return 2
		fi
		awk 'function value(s, name) {
				name = "\"" name "\":\""
				if (!(at = index(s, name))) return "-"
				s = substr(s, at + length(name)); match(s, /^([^"\\]|\\.)*/)
				return substr(s, 1, RLENGTH)
			}
			{ n = split($0, change, /\{"cursor":/)
			for (i = 2; i <= n; i++) print value(change[i], "codigoGeneracion"), value(change[i], "estado"), value(change[i], "selloRecibido"), value(change[i], "descripcionMsg") }' "$work/body"
		text siguiente >"$cursor.tmp" && mv "$cursor.tmp" "$cursor"
		[ "$wait" = 0 ] && return 0
	done
}

imprimir() {
	n=0
	while ask GET "/dte/pdf/$1?format=escpos&layout=${2:-ticket80}"; again && [ "$n" -lt 5 ]; do
		n=$((n + 1))
		rest "$n"
	done
	[ "$status" = 200 ] && cat "$work/body" && return 0
	echo "dte.sh: $status $(text message)" >&2
	return 2
}

case ${1:-} in
emitir) [ $# -eq 3 ] && { shift; emitir "$@"; exit; } ;;
seguir) [ $# -le 2 ] && { shift; seguir "$@"; exit; } ;;
imprimir) [ $# -ge 2 ] && { shift; imprimir "$@"; exit; } ;;
esac
sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
exit 64
