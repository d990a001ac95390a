#!/usr/bin/env python3
"""A second reading of the F-07 v14 manual, to compare with what package books writes.

usage: oracle.py MONTH SETTINGS.json OUT < documents.ndjson

A line of the input is a stored document: the members of the record (codigoGeneracion, numeroControl, tipoDte, estado, fecEmi,
total, selloRecibido, contingencia, invalidado) and "document", the JSON that was signed. Pages are the manual's. Only the
standard library is used; amounts are exact decimals. Columns are filled by letter, row by row, and whole files are sorted at the end.
"""
import collections
import decimal
import json
import os
import sys

D = decimal.Decimal
ZERO = D(0)
CUT = decimal.Context(prec=40, rounding=decimal.ROUND_DOWN)


def usd(x):
    """"en caso de ingresar valores con más de 2 decimales, el Sistema tomará únicamente 2" (p. 2)"""
    s = str(x.quantize(D("0.01"), context=CUT))
    return "0.00" if s == "-0.00" else s


def dmy(iso):
    y, m, d = iso.split("-")
    return f"{d}/{m}/{y}"


def bare(s):
    return (s or "").replace("-", "")


def alnum(s):
    return "".join(c for c in (s or "") if c.isalnum())


def name(s):
    out = []
    for c in s or "":
        if c == ";":
            c = ","
        elif c == '"':
            c = "'"
        elif not c.isprintable():
            c = " "
        out.append(c)
    s = " ".join("".join(out).split())
    while s and s[0] in "=+-@＝＋－＠' ":
        s = s[1:]
    return s


class Row(dict):
    """A row by the letters of its columns."""

    def line(self, last):
        return ";".join(self.get(chr(c), "") for c in range(ord("A"), ord(last) + 1))


def num(x):
    return ZERO if x is None else D(str(x))


class Doc:
    def __init__(self, rec):
        self.rec, self.json = rec, rec["document"]
        self.kind, self.state, self.date = rec["tipoDte"], rec["estado"], rec["fecEmi"]
        self.code, self.control, self.seal = rec["codigoGeneracion"], rec["numeroControl"], rec.get("selloRecibido", "")
        h, m, s = self.json["identificacion"]["horEmi"].split(":")
        self.hour = f"{h}:{m}:{int(s):02d}"
        self.taken = rec.get("invalidado", "")
        self.sum = self.json["resumen"]
        r = self.sum
        get = lambda k: num(r.get(k))
        self.exempt = get("totalExenta") - get("descuExenta")
        self.nonsubject = get("totalNoSuj") - get("descuNoSuj")
        self.taxed = get("totalGravada") - get("descuGravada")
        self.vat = sum((num(t["valor"]) for t in r.get("tributos") or [] if t["codigo"] == "20"), ZERO)
        self.perceived = get("ivaPerci") + get("ivaPerci1")
        who = self.json.get("receptor") or self.json.get("sujetoExcluido") or {}
        self.name = name(who.get("nombre"))
        self.nrc = alnum(who.get("nrc"))
        self.idtype, self.idnumber = who.get("tipoDocumento"), alnum(who.get("numDocumento"))
        number = alnum(who.get("nit")) or (self.idnumber if self.idtype in ("36", "13") else "")
        # "14 dígitos en caso que corresponda al NIT" (p. 2); the DUI "debe contener 9 caracteres" (p. 3); one excludes the other
        self.nit = number if len(number) == 14 else ""
        self.dui = number if len(number) == 9 else ""
        self.sales = self.exempt + self.nonsubject + self.taxed
        self.place = self.control[7:11] if len(self.control) == 31 else ""
        self.series = self.control[7:15] if len(self.control) == 31 else ""
        self.number = int(self.control[16:]) if len(self.control) == 31 else 0
        self.when = (self.date, self.hour, self.series, self.number)
        weight = collections.defaultdict(lambda: ZERO)
        for it in self.json["cuerpoDocumento"]:
            weight[it.get("tipoItem") or 0] += sum((num(it.get(k)) for k in ("ventaNoSuj", "ventaExenta", "ventaGravada", "compra")), ZERO)
        self.item = sorted(((-w, k) for k, w in weight.items()))[0][1] if weight else 0


def choose(rules, doc, default):
    for r in rules or []:
        if r.get("establishment", "") in ("", doc.place) and r.get("item", 0) in (0, doc.item):
            return r
    return default


class Books:
    def __init__(self, month, settings):
        self.month, self.set = month, settings
        self.files = collections.defaultdict(list)
        self.days, self.till = {}, {}
        self.nowhere = []

    def renta(self, d):
        """columns R and S of annex 1, U and V of annex 2 (pp. 3, 4, 9, 10)"""
        r = choose(self.set.get("sale"), d, self.set)
        op = r.get("operation", 0)
        if op == 0:
            free = d.exempt != 0 or d.nonsubject != 0
            op = 4 if free and d.taxed != 0 else 2 if free else 1
        return op, r["income"]

    def put(self, file, key, row):
        self.files[file].append((key, row))

    def take(self, d):
        own = d.date[:7] == self.month
        if d.state == "INVALIDATED" and d.taken[:7] == self.month:
            return self.invalidated(d, own)
        if not own:
            return None
        if d.state == "PROCESSED":
            return self.stands(d)
        if d.state == "INVALIDATED" and d.kind == "01":  # it stood at the end of this month; taken off later (p. 10)
            return self.stands(d)
        self.nowhere.append(d.code)  # "sin incluir anulados" (p. 4); no seal, no column E

    def invalidated(self, d, own):
        """XIX, pp. 55 to 57"""
        if d.kind == "18":  # not in the list of column E
            self.nowhere.append(d.code)
            return
        hyphens = self.set["cancelled_hyphens"]
        self.put("anulados.csv", d.when, Row(A=d.control if hyphens else bare(d.control), B="4", C="0", D="0", E=d.kind, F="D", G=d.seal, H="0", I="0",
                                             J=d.code if hyphens else bare(d.code)))
        if d.kind == "01" and not own:
            then = lambda s: int(s[:4]) * 12 + int(s[5:7])
            if then(d.taken) - then(d.date) <= 3:  # "documentos de 3 periodos anteriores al que está declarando" (p. 7)
                self.alone(d)
            self.adjust(d, d.taken, "Invalidación de la factura del " + dmy(d.date))

    def stands(self, d):
        if d.kind == "01":
            self.consumer(d)
        elif d.kind in ("03", "05", "06"):
            self.taxpayer(d)
        elif d.kind == "07":
            self.withheld(d)
        elif d.kind == "14":
            self.excluded(d)
        elif d.kind == "18":
            self.back(d)

    def sales2(self, row, exempt, nonsubject, taxed):
        row.update({c: "0.00" for c in "LOPQRS"})
        row.update(K=usd(exempt), M=usd(nonsubject), N=usd(taxed), T=usd(exempt + nonsubject + taxed))
        return row

    def daycode(self, code):
        return code if self.set["day_hyphens"] else bare(code)

    def base2(self, date, first, last, op, income):
        row = Row(A=dmy(date), B="4", C="01", H=self.daycode(first), I=self.daycode(last), J="", U=str(op), V=str(income), W="2")
        row.update({c: "N/A" for c in "DEFG"})  # "debido a que los documentos se agruparán por día" (p. 8)
        return row

    def alone(self, d):
        op, income = self.renta(d)
        self.put("anexo02.csv", (d.date, d.hour, d.series, d.number),
                 self.sales2(self.base2(d.date, d.code, d.code, op, income), -d.exempt, -d.nonsubject, -d.taxed))

    def consumer(self, d):
        op, income = self.renta(d)
        key = (d.date, d.place if self.set["consumer_rows"] == "establishment" else "", income)
        self.days.setdefault(key, []).append((d, op))
        self.till.setdefault((d.date, d.series), []).append(d)

    def adjust(self, d, date, why):
        """art. 87: in the month in which it happens, taken off"""
        self.put("libro_consumidores.csv", (date, d.hour, d.series, d.number, 1),
                 Row(A=dmy(date), B=d.place, C=d.code, D=d.code, F=usd(-d.exempt), G=usd(-d.nonsubject), H=usd(-d.taxed), I="0.00", J=usd(-d.sales), K="0.00",
                     L="1", M=name(why)))

    def back(self, d):
        origin = (d.json.get("documentoRelacionado") or [{}])
        if origin[0].get("tipoDocumento") != "01":
            self.nowhere.append(d.code)  # annex 5: "No debe ingresar valores negativos" (p. 23)
            return
        if self.set["returns"] == "annex2":
            self.alone(d)
        more = "" if len(origin) == 1 else f" y {len(origin) - 1} más"
        self.adjust(d, d.date, "Retorno de la factura " + origin[0]["codigoGeneracion"] + more)

    def taxpayer(self, d):
        if any(r["tipoDocumento"] == "07" for r in d.json.get("documentoRelacionado") or []):
            self.nowhere.append(d.code)
            return
        op, income = self.renta(d)
        h = d.nit or ("" if d.dui else d.nrc)
        total = d.sales + d.vat
        if h or d.dui:
            self.put("anexo01.csv", d.when, Row(A=dmy(d.date), B="4", C=d.kind, D=bare(d.control), E=d.seal, F=bare(d.code), G="", H=h, I=d.name, J=usd(d.exempt),
                                                K=usd(d.nonsubject), L=usd(d.taxed), M=usd(d.vat), N="0.00", O="0.00", P=usd(total), Q=d.dui, R=str(op),
                                                S=str(income), T="1"))
        if d.perceived > 0 and (d.nit or d.dui):
            self.put("anexo09.csv", d.when, Row(A=d.nit, B=dmy(d.date), C=d.kind, D=bare(d.control), E=d.seal, F=bare(d.code), G=usd(d.taxed),
                                                H=usd(d.perceived), I=d.dui, J="9"))
            self.f930(d, d.nit or d.dui, "1", {"03": "1", "05": "5", "06": "4"}[d.kind], d.taxed, d.perceived)
        k = -1 if d.kind == "05" else 1
        self.put("libro_contribuyentes.csv", d.when, Row(B=dmy(d.date), C={"03": "CCF", "05": "NC", "06": "ND"}[d.kind], D=d.control, E=d.code, F="", G=d.name, H=d.nrc[:-1] + "-" + d.nrc[-1] if d.nrc else "", I=usd(k * d.exempt),
                                                         J=usd(k * d.nonsubject), K=usd(k * d.taxed), L=usd(k * d.vat), M="0.00", N="0.00",
                                                         O=usd(k * d.perceived), P=usd(k * total)))

    def f930(self, d, nit, mode, document, base, amount):
        self.put("f930.csv", d.when, Row(B=nit, C=d.name, D="1", E=mode, F=document, G=dmy(d.date), H=d.seal, I=bare(d.code), J=usd(base), K=usd(amount)))

    def withheld(self, d):
        if not (d.nit or d.dui):
            self.nowhere.append(d.code)
            return
        found, base, amount = False, ZERO, ZERO
        for code, annex in (("22", 10), ("C4", 12)):
            lines = [i for i in d.json["cuerpoDocumento"] if i["codigoRetencionMH"] == code]
            if not lines:
                continue
            b, a = sum((num(i["montoSujetoGrav"]) for i in lines), ZERO), sum((num(i["ivaRetenido"]) for i in lines), ZERO)
            found, base, amount = True, base + b, amount + a
            row = Row(A=d.nit, B=dmy(d.date), C="07", F=bare(d.code), G=usd(b), H=usd(a), I=d.dui, J=str(annex))
            if annex == 10:
                row.update(D=bare(d.control), E=d.seal)  # pp. 41, 42
            else:
                row.update(D=d.seal, E=bare(d.control))  # p. 48: the other way round
            self.put(f"anexo{annex}.csv", d.when, row)
        if not found:
            self.nowhere.append(d.code)
            return
        self.f930(d, d.nit or d.dui, "3", "3", base, amount)

    def excluded(self, d):
        a, b = ("1", d.nit) if d.nit else ("2", d.dui) if d.dui else ("3", d.idnumber)
        if not b or len(b) > 14:  # "si es Otro documento, máximo 14 caracteres" (p. 23)
            self.nowhere.append(d.code)
            return
        c = choose(self.set["purchase"], d, self.set["purchase_default"])
        held = num(d.sum.get("ivaRete")) + num(d.sum.get("ivaRete1"))
        self.put("anexo05.csv", d.when, Row(A=a, B=b, C=d.name, D=dmy(d.date), E=d.seal, F=bare(d.code), G=usd(num(d.sum["subTotal"])), H=usd(held),
                                            I=str(c["operation"]), J=str(c["classification"]), K=str(c["sector"]), L=str(c["cost"]), M="5"))
        if held > 0:
            self.f930(d, b, "3", "7", num(d.sum["subTotal"]), held)

    def finish(self, out):
        for (date, place, income), docs in self.days.items():
            docs.sort(key=lambda x: x[0].when)
            ops = {op for _, op in docs}
            total = lambda f: sum((f(d) for d, _ in docs), ZERO)
            row = self.base2(date, docs[0][0].code, docs[-1][0].code, ops.pop() if len(ops) == 1 else 4, income)
            self.put("anexo02.csv", (date, "", place, income), self.sales2(row, total(lambda d: d.exempt), total(lambda d: d.nonsubject), total(lambda d: d.taxed)))
        for (date, series), docs in self.till.items():
            docs.sort(key=lambda d: d.when)
            total = lambda f: sum((f(d) for d in docs), ZERO)
            self.put("libro_consumidores.csv", (date, "", series, 0, 0),
                     Row(A=dmy(date), B=series[:4], C=docs[0].control, D=docs[-1].control, F=usd(total(lambda d: d.exempt)), G=usd(total(lambda d: d.nonsubject)),
                         H=usd(total(lambda d: d.taxed)), I="0.00", J=usd(total(lambda d: d.sales)), K="0.00", L=str(len(docs)), M=""))
        last = {"anexo01.csv": "T", "anexo02.csv": "W", "anexo05.csv": "M", "anexo09.csv": "J", "anexo10.csv": "J", "anexo12.csv": "J", "anulados.csv": "J",
                "libro_contribuyentes.csv": "P", "libro_consumidores.csv": "M", "f930.csv": "K"}
        for file, letter in last.items():
            rows = sorted(self.files[file], key=lambda kr: kr[0])
            with open(os.path.join(out, file), "w", encoding="utf-8", newline="") as f:
                for n, (_, row) in enumerate(rows, 1):
                    if file in ("libro_contribuyentes.csv", "f930.csv"):
                        row["A"] = str(n)
                    f.write(row.line(letter) + "\r\n")
        with open(os.path.join(out, "sin_archivo.txt"), "w") as f:
            f.write("".join(c + "\n" for c in sorted(self.nowhere)))


def main():
    month, settings, out = sys.argv[1:]
    with open(settings) as f:
        b = Books(month, json.load(f))
    for line in sys.stdin:
        b.take(Doc(json.loads(line, parse_float=D)))
    b.finish(out)


main()
