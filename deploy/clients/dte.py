#!/usr/bin/env python3
"""dte.py: a till's client in Python 3, standard library only. A program, and a module to import.

  dte.py emitir dte01 venta-000123.json    issue a sale (dte01 dte03 dte05 dte06 dte07 dte14 retorno)
  dte.py seguir [--una-vez]                results that came late, as they come: code, state, seal
  dte.py imprimir CODIGO [ticket58] >/dev/usb/lp0

The file's name without .json is the sale's Idempotency-Key: name it after what the till never uses twice, such as its
own ticket number. The same command again is the same sale, after a power cut too: run it until it ends with 0, 2 or 3.

  0  issued: PROCESSED, or CONTINGENCIA (print it; its seal comes with seguir)
  2  refused: nothing was issued. Correct the file, keep its name. (422: that name was sold before, with other content)
  3  REJECTED by MH: the number is spent. Correct the sale and sell it under another name.
  75 no answer in DTE_PLAZO: run the same command again

DTE_URL (https://dte.tienda.lan:8080), DTE_TOKEN_FILE (one line), DTE_CA (PEM of the box's own authority), DTE_PREFER
(seconds that a customer waits for MH), DTE_PLAZO (300 s), DTE_PAUSA (1 s, doubling up to 30), DTE_TIMEOUT (75 s, above
the appliance's own 60), DTE_CURSOR (./dte.cursor)
"""
import http.client
import json
import os
import random
import ssl
import sys
import time
import urllib.error
import urllib.request


class Refused(Exception):
    """The appliance issued nothing and would not if it were asked again: status, and what is wrong by path."""

    def __init__(self, status, answer):
        super().__init__(f"{status} {answer.get('type')}: {answer.get('message')}")
        self.status, self.answer = status, answer


class NoAnswer(Exception):
    """Nobody knows whether the sale was issued: send it again under the same key."""


class Caja:
    """A till. pause, limit and timeout are seconds."""

    def __init__(self, url, token, ca=None, pause=1.0, limit=300.0, timeout=75.0, prefer=None):
        self.url, self.token, self.pause, self.limit, self.timeout, self.prefer = url.rstrip("/"), token, pause, limit, timeout, prefer
        handlers = [urllib.request.ProxyHandler({})]
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))
        self.opener = urllib.request.build_opener(*handlers)

    def emitir(self, kind, body, key):
        """Issues a sale. body is the JSON as bytes: the same bytes at every try. Returns the record."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        if self.prefer:
            headers["Prefer"] = f"wait={self.prefer}"
        return json.loads(self.insist("POST", f"/dte/{kind}", body, headers))["data"]

    def seguir(self, cursor, wait=50):
        """Returns the results behind a cursor, perhaps none, and the cursor to keep once they were used."""
        data = json.loads(self.insist("GET", f"/dte/cambios?desde={cursor}&wait={wait}"))["data"]
        return data["cambios"], data["siguiente"]

    def imprimir(self, code, layout="ticket80"):
        """Returns a document as bytes for a thermal printer."""
        return self.insist("GET", f"/dte/pdf/{code}?format=escpos&layout={layout}")

    def insist(self, method, path, body=None, headers=None):
        """Asks until there is an answer that will not change: 2xx, or Refused. NoAnswer once the limit is over."""
        end, tries = time.monotonic() + self.limit, 0
        while True:
            try:
                return self.ask(method, path, body, headers or {})
            except Again as again:
                tries += 1
                if time.monotonic() >= end:
                    raise NoAnswer(again.why) from None
                pause = again.after
                if pause is None:  # of a random length, so that the tills of a store do not come all at once
                    pause = min(30, self.pause * 2 ** (tries - 1)) * random.uniform(0.5, 1)
                time.sleep(pause)

    def ask(self, method, path, body, headers):
        request = urllib.request.Request(self.url + path, data=body, method=method, headers={**headers, "x-api-token": self.token})
        try:
            with self.opener.open(request, timeout=self.timeout) as answer:
                return answer.read()  # IncompleteRead when it was cut
        except urllib.error.HTTPError as e:
            if e.code in (408, 429) or e.code >= 500:
                after = e.headers.get("Retry-After", "")
                raise Again(f"HTTP {e.code}", float(after) if after.isdigit() else None) from None
            try:
                answer = json.loads(e.read())
            except (ValueError, OSError, http.client.HTTPException):
                raise Again(f"HTTP {e.code}, cut") from None
            raise Refused(e.code, answer) from None
        except (OSError, http.client.HTTPException) as e:  # refused, reset, timed out, cut
            raise Again(str(e)) from None


class Again(Exception):
    """The same request may have another answer later: after so many seconds, if it was said."""

    def __init__(self, why, after=None):
        super().__init__(why)
        self.why, self.after = why, after


def keep(path, text):
    """Writes a file that is there whole after a power cut, or not at all."""
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


def show(record):
    """Prints what a ticket needs."""
    head = record["dteJson"]["identificacion"]
    for name in ("estado", "codigoGeneracion", "numeroControl", "selloRecibido", "total"):
        print(f"{name}={record[name] or ''}")
    print(f"fecEmi={head['fecEmi']}\nhorEmi={head['horEmi']}")
    print(f"consulta=https://admin.factura.gob.sv/consultaPublica?ambiente={head['ambiente']}&codGen={record['codigoGeneracion']}&fechaEmi={head['fecEmi']}")
    if record["estado"] == "CONTINGENCIA":
        print("leyenda=EMITIDO EN CONTINGENCIA: sin sello todavía; se transmitirá a Hacienda")


def emitir(till, kind, path):
    with open(path, "rb") as f:
        body = f.read()
    base = path[:-5] if path.endswith(".json") else path
    record = till.emitir(kind, body, os.path.basename(base))
    keep(base + ".dte", json.dumps({"status": "success", "data": record}, ensure_ascii=False))
    show(record)
    if record["estado"] == "REJECTED":
        print("dte.py:", record["errorTecnico"], file=sys.stderr)
        return 3
    return 0


def seguir(till, once):
    """Prints before it moves the cursor: after a power cut a result may come twice, and never not at all."""
    path = os.environ.get("DTE_CURSOR", "dte.cursor")
    while True:
        try:
            with open(path, encoding="utf-8") as f:
                cursor = f.read().strip()
        except FileNotFoundError:
            cursor = "0"
        try:
            changes, cursor = till.seguir(cursor, 0 if once else 50)
        except NoAnswer:
            continue
        for c in changes:
            print(c["codigoGeneracion"], c["estado"], c["selloRecibido"] or "-", c["descripcionMsg"] or "-", flush=True)
        keep(path, cursor)
        if once:
            return 0


def main(args):
    env = os.environ
    if not args or "DTE_URL" not in env or "DTE_TOKEN_FILE" not in env:
        print(__doc__, file=sys.stderr)
        return 64
    with open(env["DTE_TOKEN_FILE"], encoding="ascii") as f:
        till = Caja(env["DTE_URL"], f.read().strip(), env.get("DTE_CA"), float(env.get("DTE_PAUSA", 1)), float(env.get("DTE_PLAZO", 300)),
                    float(env.get("DTE_TIMEOUT", 75)), env.get("DTE_PREFER"))
    try:
        if args[0] == "emitir" and len(args) == 3:
            return emitir(till, args[1], args[2])
        if args[0] == "seguir" and args[1:] in ([], ["--una-vez"]):
            return seguir(till, len(args) == 2)
        if args[0] == "imprimir" and len(args) in (2, 3):
            sys.stdout.buffer.write(till.imprimir(*args[1:]))
            return 0
    except Refused as e:
        print(f"dte.py: {e}", file=sys.stderr)
        for fault in e.answer.get("errors", []):
            print(f"  {fault['path']} {fault['code']}: {fault['message']}", file=sys.stderr)
        return 2
    except NoAnswer as e:
        print(f"dte.py: sin respuesta ({e}); repita la misma orden, la venta no se duplica", file=sys.stderr)
        return 75
    print(__doc__, file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
