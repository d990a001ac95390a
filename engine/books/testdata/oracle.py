#!/usr/bin/env python3
"""The month's files a second time, from MH's manual alone.

Usage: oracle.py MONTH SETTINGS.json OUT < documents.jsonl

Reads one stored document a line and writes each file of the month to OUT, the books without their headings. Written from the F-07 v14
manual of annexes (January 2025) and articles 82 to 87 of the Código Tributario's regulation, by somebody who had not read the Go; where
the two disagreed, the manual decided. "p. N" is the manual's page, "art. N" the regulation's article. What neither says is marked
"convention". Python's standard library only; money is decimal.Decimal, never a float.
"""

import json
import re
import sys
from collections import defaultdict
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path

ZERO = Decimal(0)
SHORT = {"03": "CCF", "05": "NC", "06": "ND"}
# "los países que se considera dentro del Área Centroamericana" (p. 9), by ISO and by the numbers of the catalogue before
CENTRAL_AMERICA = {"GT", "HN", "NI", "CR", "9483", "9501", "9615", "9411"}
HERE = {"SV", "9300"}


def money(amount):
    """Two decimals, a point, no thousands; further decimals fall away: "el Sistema tomará únicamente 2" (p. 2)."""
    cut = amount.quantize(Decimal("0.01"), rounding=ROUND_DOWN)
    return str(abs(cut) if cut == 0 else cut)


def dashless(text):
    return (text or "").replace("-", "")


def day(iso):
    """DD/MM/AAAA (p. 1)."""
    year, month, of = iso.split("-")
    return f"{of}/{month}/{year}"


def months_between(earlier, later):
    a, b = (int(m[:4]) * 12 + int(m[5:7]) for m in (earlier, later))
    return b - a


def name(text):
    """The file is text between semicolons without quoting (p. 3), made to be opened in a spreadsheet (p. 2). Convention: the
    separator becomes a comma, double quotes go, spaces run together, and a leading sign of a formula goes."""
    text = " ".join((text or "").replace('"', "").replace(";", ",").split())
    return text.lstrip("=+-@ ")


class Party:
    """Who the document was issued to, with the numbers that the annexes want."""

    def __init__(self, raw):
        raw = raw or {}
        self.name = name(raw.get("nombre"))
        self.nrc = dashless(raw.get("nrc"))
        kind, number = raw.get("tipoDocumento"), raw.get("numDocumento") or ""
        if raw.get("nit"):
            kind, number = "36", raw["nit"]
        plain = dashless(number)
        self.nit = self.dui = self.other = ""
        if kind in ("36", "13") and re.fullmatch(r"\d{14}", plain):
            self.nit = plain
        elif kind in ("36", "13") and re.fullmatch(r"\d{9}", plain):
            self.dui = plain  # a person's NIT is the DUI since 2022 and has nine digits
        else:
            self.other = plain

    def buyer(self):
        """Annex 1: NIT or NRC in H (p. 2), or DUI in Q and then H empty (p. 3)."""
        if self.dui:
            return "", self.dui
        return self.nit or self.nrc, ""

    def subject(self):
        """Annexes 9, 10, 12: NIT in A, or DUI in I and then A empty (pp. 37, 38, 41, 42)."""
        return self.nit, self.dui


class Document:
    def __init__(self, record):
        self.code = record["codigoGeneracion"]
        self.number = record["numeroControl"]
        self.type = record["tipoDte"]
        self.state = record["estado"]
        self.date = record["fecEmi"]
        self.seal = record["selloRecibido"]
        self.invalidated = record["invalidado"]
        body = record["document"]
        self.sum = body.get("resumen") or {}
        self.lines = body.get("cuerpoDocumento") or []
        if self.type == "09":  # its one body has the amounts and there is no summary
            self.sum, self.lines = self.lines, []
        self.emitter = body["emisor"] if self.type == "11" else {}
        self.country = (body.get("receptor") or {}).get("codPais")
        self.third = body.get("ventaTercero")
        self.related = body.get("documentoRelacionado") or []
        self.party = Party(body.get("receptor") or body.get("sujetoExcluido"))
        clock = body["identificacion"]["horEmi"].split(":")
        self.clock = tuple(int(c) for c in clock)
        _, _, self.series, number = self.number.split("-")
        self.sequence = int(number)
        self.establishment = self.series[:4]

    def order(self, date=None):
        """Rows stand by time of issue. Convention: within one second by series, type and number."""
        return (date or self.date, *self.clock, self.series, self.type, self.sequence)

    def amount(self, *keys):
        return sum((Decimal(str(self.sum[k])) for k in keys if self.sum.get(k) is not None), ZERO)

    exempt = property(lambda d: d.amount("totalExenta") - d.amount("descuExenta"))
    nonsubject = property(lambda d: d.amount("totalNoSuj") - d.amount("descuNoSuj"))
    taxed = property(lambda d: d.amount("totalGravada") - d.amount("descuGravada"))
    perceived = property(lambda d: d.amount("ivaPerci", "ivaPerci1"))

    @property
    def vat(self):
        """Débito fiscal: tax 20 of the document's summary. Other taxes are not VAT."""
        return sum((Decimal(str(t["valor"])) for t in self.sum.get("tributos") or [] if t["codigo"] == "20"), ZERO)

    @property
    def exported(self):
        """What the foreign customer pays for the goods or services: the price after the discount, with the insurance and the freight
        that the invoice charges. The manual says no more than "Exportaciones". Not FOVIAL and COTRANS, nor what is no sale."""
        return self.amount("totalGravada", "seguro", "flete") - self.amount("descuGravada", "descuento")

    @property
    def column(self):
        """Which of O to S of annex 2 an export invoice is in (p. 9), or none."""
        if self.third and self.third.get("codDomiciliado") != 2:
            return None  # S is of "terceros no domiciliados"; of domiciled ones it is annex 4, which wants the 08 (pp. 19, 20)
        if self.emitter["tipoItemExpor"] == 3:
            return None  # goods and services have columns and types of income of their own (V, p. 10): the accountant divides it
        if self.third:
            return "S"
        if self.country in HERE:
            return "R"  # only a free zone buys so inside the country (p. 13, type 11)
        if self.emitter["tipoItemExpor"] == 2:
            return "Q"
        return "O" if self.country in CENTRAL_AMERICA else "P"

    @property
    def item(self):
        """The kind of item that most of the amount is of. Convention: the lowest of equals."""
        of = defaultdict(Decimal)
        for line in self.lines:
            for key in ("ventaGravada", "ventaExenta", "ventaNoSuj", "compra"):
                of[line.get("tipoItem", 0)] += Decimal(str(line.get(key) or 0))
        return min(of, key=lambda k: (-of[k], k), default=0)

    def held(self, *codes):
        """Base and withheld tax of the lines with these codes of CAT-006, or of all lines."""
        lines = [l for l in self.lines if not codes or l["codigoRetencionMH"] in codes]
        total = lambda key: sum((Decimal(str(l[key])) for l in lines), ZERO)
        return total("montoSujetoGrav"), total("ivaRetenido")

    def of(self, kind):
        return any(r["tipoDocumento"] == kind for r in self.related)


class Month:
    def __init__(self, month, settings):
        self.month, self.settings = month, settings
        self.rows = defaultdict(list)  # file -> (order, cells)
        self.days = defaultdict(list)  # the invoices that share a row of annex 2
        self.bookdays = defaultdict(list)
        self.within = ZERO  # the VAT that the consumers' documents say is inside their prices
        self.placed, self.seen = set(), []

    def put(self, file, document, cells, order=None):
        self.placed.add(document.code)
        self.rows[file].append((order or document.order(), cells))

    def rent(self, d):
        """Tipo de operación and tipo de ingreso (pp. 3, 4): of the first rule that fits, operation 0 by the amounts."""
        rule = self.settings
        for r in self.settings["sale"] or []:
            if r["establishment"] in ("", d.establishment) and r["item"] in (0, d.item):
                rule = r
                break
        operation = rule["operation"]
        if operation == 0:
            taxed, free = d.taxed > 0, d.exempt + d.nonsubject > 0
            operation = 4 if taxed and free else 2 if free else 1
        if d.type == "11":  # "7 Exportaciones de bienes", "9 Exportaciones de servicios" (p. 10)
            return str(operation), "9" if d.emitter["tipoItemExpor"] == 2 else "7"
        return str(operation), str(rule["income"])

    def cost(self, d):
        """Columns I to L of annex 5 (pp. 23, 24)."""
        rule = self.settings["purchase_default"]
        for r in self.settings["purchase"] or []:
            if r["establishment"] in ("", d.establishment) and r["item"] in (0, d.item):
                rule = r
                break
        return [str(rule[k]) for k in ("operation", "classification", "sector", "cost")]

    def add(self, d):
        self.seen.append(d)
        if not d.seal or d.state == "REJECTED":
            return  # without MH's seal there is nothing for the columns that want it, and no legal document
        issued_here = d.date.startswith(self.month)
        cancelled_here = d.invalidated.startswith(self.month)
        if cancelled_here:
            self.cancelled(d)
            if not issued_here:
                self.takes_back(d)
            return
        # An invoice or a return that is invalidated in a later month is adjusted in that month (art. 87; p. 10 allows what that
        # takes). The other annexes hold documents "sin incluir anulados" (pp. 4, 38, 42, 48), whenever they are made.
        if issued_here and (not d.invalidated or d.type in ("01", "11", "18")):
            self.live(d)

    def live(self, d):
        if d.type in SHORT:
            self.to_taxpayer(d)
        elif d.type == "01":
            self.invoice(d)
        elif d.type == "11":
            self.export(d)
        elif d.type == "07":
            self.withholding(d)
        elif d.type == "09":
            self.advance(d)
        elif d.type == "14":
            self.purchase(d)
        elif d.type == "18":
            self.returned(d, -1, d.date)
        if not d.invalidated:
            self.lists(d)

    # What no annex holds: art. 86 of what was issued, income tax withheld, and the 07s that customers owe.
    def lists(self, d):
        p = d.party
        named = [day(d.date), d.type, d.number, d.code]
        who = p.nit or p.dui or p.other
        if d.type == "07" and p.nit + p.dui:
            base, tax = d.held()
            self.put("extracto_compras.csv", d, [*named, hyphened(p.nrc), who, p.name, "0.00", money(base), money(tax), "0.00"])
        elif d.type == "14" and len(p.other) <= 14:
            paid, vat, rent = d.amount("totalCompra") - d.amount("descu"), d.amount("ivaRete1", "ivaRete"), d.amount("reteRenta")
            self.put("extracto_compras.csv", d, [*named, hyphened(p.nrc), who, p.name, money(paid), "0.00", money(vat), money(rent)])
            if rent > 0:
                self.put("renta_retenida.csv", d, [day(d.date), who, p.name, d.number, d.code, money(paid), money(rent)])
        elif d.type in ("01", "03", "05", "06") and not d.of("07"):
            vat, sign = d.amount("ivaRete1", "ivaRete"), -1 if d.type == "05" else 1
            if vat > 0:
                self.put("retenciones_por_recibir.csv", d, [*named, p.nit or p.dui, hyphened(p.nrc), p.name, money(sign * d.taxed), money(sign * vat)])

    # Annex 1 (pp. 1 to 4) and the book of sales to taxpayers (art. 85)
    def to_taxpayer(self, d):
        if d.of("07"):
            return  # a note on a withholding voucher belongs to annex 10 or 12 (pp. 41, 48), and does not say its base
        h, q = d.party.buyer()
        operation, income = self.rent(d)
        total = d.exempt + d.nonsubject + d.taxed + d.vat
        if h or q:  # "es obligatorio que complete el NIT o NRC" (p. 3)
            self.put("anexo01.csv", d, [
                day(d.date), "4", d.type, dashless(d.number), d.seal, dashless(d.code), "", h, d.party.name, money(d.exempt),
                money(d.nonsubject), money(d.taxed), money(d.vat), "0.00", "0.00", money(total), q, operation, income, "1"])
        sign = -1 if d.type == "05" else 1
        self.put("libro_contribuyentes.csv", d, [
            day(d.date), SHORT[d.type], d.number, d.code, "", d.party.name, hyphened(d.party.nrc),
            *(money(sign * a) for a in (d.exempt, d.nonsubject, d.taxed, d.vat)), "0.00", "0.00",
            money(sign * d.perceived), money(sign * total)])
        # Annex 9 (pp. 37, 38): "obligatorio que complete el NIT" without a DUI
        a, i = d.party.subject()
        if d.perceived > 0 and a + i:
            self.put("anexo09.csv", d, [a, day(d.date), d.type, dashless(d.number), d.seal, dashless(d.code), money(d.taxed), money(d.perceived), i, "9"])
            self.f930(d, "1", {"03": "1", "06": "4", "05": "5"}[d.type], d.taxed, d.perceived)

    # Annex 2 (pp. 7 to 10) and the book of sales to consumers (art. 83)
    def invoice(self, d):
        place = d.establishment if self.settings["consumer_rows"] == "establishment" else ""
        operation, income = self.rent(d)
        # "Agrupar por día" (p. 8): one row, of one tipo de ingreso. Taxed (1) and exempt (2) in it are mixed (4, p. 9); types 3, 12
        # and 13 join no other.
        self.days[d.date, place, "01", int(income), 0 if operation in "124" else int(operation)].append((d, operation))
        self.bookdays[d.date, d.establishment, d.series, "01"].append(d)
        self.within += d.amount("totalIva")
        self.placed.add(d.code)

    # Export invoices are rows of their own: type 11 in annex 2 (p. 8), and in the book "de igual manera" (art. 83 b).
    def export(self, d):
        place = d.establishment if self.settings["consumer_rows"] == "establishment" else ""
        operation, income = self.rent(d)
        if d.column:
            self.days[d.date, place, "11", int(income), 0 if operation in "124" else int(operation)].append((d, operation))
        self.bookdays[d.date, d.establishment, d.series, "11"].append(d)
        self.placed.add(d.code)
        if not d.third:  # art. 84: the taxpayer's own exports; the form of the customs is in no member of the document
            self.put("detalle_exportaciones.csv", d, [day(d.date), d.number, d.code, d.party.name, "", money(d.exported)])

    def export_row(self, date, first, last, of, operation, income):
        amounts = [of.get(c, ZERO) for c in "OPQRS"]
        return [day(date), "4", "11", "N/A", "N/A", "N/A", "N/A", self.day_code(first), self.day_code(last), "",
                "0.00", "0.00", "0.00", "0.00", *map(money, amounts), money(sum(amounts)), operation, income, "2"]

    # The 2 % that the declarant, a perceiving agent, took: the F-930, modality 2, document 2 (DCL). Annex 11 (pp. 45, 46) is by hand. So
    # is an 08: annex 4 (p. 20) wants the sales with it, and art. 85 names it but its columns i, j count those sales, once.
    def advance(self, d):
        self.f930(d, "2", "2", d.amount("montoSujetoPercepcion"), d.amount("ivaPercibido"))

    def day_code(self, code):
        return code if self.settings["day_hyphens"] else dashless(code)

    def consumer_row(self, date, first, last, exempt, nonsubject, taxed, operation, income):
        return [day(date), "4", "01", "N/A", "N/A", "N/A", "N/A", self.day_code(first), self.day_code(last), "",
                money(exempt), "0.00", money(nonsubject), money(taxed), "0.00", "0.00", "0.00", "0.00", "0.00",
                money(exempt + nonsubject + taxed), operation, income, "2"]

    def takes_back(self, d):
        """Issued in an earlier month and invalidated in this one."""
        if d.type == "11":
            # The note of p. 10 lets an invalidated document be negative; O, P, R and S "no debe ingresar valores negativos" (p. 9).
            if months_between(d.date, self.month) <= 3 and d.column == "Q":
                self.put("anexo02.csv", d, self.export_row(d.date, d.code, d.code, {d.column: -d.exported}, *self.rent(d)))
            own, third = (ZERO, -d.exported) if d.third else (-d.exported, ZERO)
            self.put("libro_consumidores.csv", d, [
                day(d.invalidated), d.establishment, d.number, d.number, "", "0.00", "0.00", "0.00", money(own), money(own),
                money(third), "1", f"Invalidación de la factura del {day(d.date)}"], d.order(d.invalidated))
        elif d.type == "01":
            # Negative rows for invalidated documents of the three periods before (pp. 7, 10).
            if months_between(d.date, self.month) <= 3:
                self.put("anexo02.csv", d, self.consumer_row(d.date, d.code, d.code, -d.exempt, -d.nonsubject, -d.taxed, *self.rent(d)))
            # "en el mes en que ello ocurra, restando los valores" (art. 87)
            self.adjustment(d, -1, d.invalidated, f"Invalidación de la factura del {day(d.date)}")
        elif d.type == "18":
            self.returned(d, 1, d.invalidated)

    def adjustment(self, d, sign, date, why):
        amounts = [sign * a for a in (d.exempt, d.nonsubject, d.taxed)]
        self.within += sign * d.amount("totalIva")
        number = d.code if d.type == "18" else d.number  # MH gives a return no control number
        self.put("libro_consumidores.csv", d, [
            day(date), d.establishment, number, number, "", *(money(a) for a in amounts), "0.00", money(sum(amounts)), "0.00", "1", why],
            d.order(date))

    def returned(self, d, sign, date):
        """A return (18) of invoices lowers the month's sales: in the book, and by a setting in annex 2."""
        if not d.of("01"):
            return
        codes = [r["codigoGeneracion"] for r in d.related]
        why = f"Retorno de la factura {codes[0]}" + (f" y {len(codes) - 1} más" if len(codes) > 1 else "")
        if sign > 0:
            why = f"Invalidación del retorno del {day(d.date)}"
        self.adjustment(d, sign, date, why)
        if self.settings["returns"] == "annex2":
            amounts = [sign * a for a in (d.exempt, d.nonsubject, d.taxed)]
            self.put("anexo02.csv", d, self.consumer_row(date, d.code, d.code, *amounts, *self.rent(d)), d.order(date))

    # Annex 5 (pp. 22 to 24)
    def purchase(self, d):
        p = d.party
        if len(p.other) > 14:
            return  # "máximo 14 caracteres" (p. 23): a number that is cut would be somebody else's
        kind = "1" if p.nit else "2" if p.dui else "3"
        amount = d.amount("totalCompra") - d.amount("descu")
        held = d.amount("ivaRete1", "ivaRete")
        self.put("anexo05.csv", d, [kind, p.nit or p.dui or p.other, p.name, day(d.date), d.seal, dashless(d.code),
                                    money(amount), money(held), *self.cost(d), "5"])
        if held > 0:
            self.f930(d, "3", "7", amount, held)

    # Annexes 10 (pp. 41, 42) and 12 (pp. 47, 48: D is the seal and E the number)
    def withholding(self, d):
        a, i = d.party.subject()
        if not a + i:
            return  # "es obligatorio que complete el NIT" (pp. 42, 48)
        number = dashless(d.number)
        for file, code, annex in (("anexo10.csv", "22", "10"), ("anexo12.csv", "C4", "12")):
            base, tax = d.held(code)
            if tax > 0:
                pair = [number, d.seal] if annex == "10" else [d.seal, number]
                self.put(file, d, [a, day(d.date), "07", *pair, dashless(d.code), money(base), money(tax), i, annex])
        # One row a rate: a base of 1 % and one of 13 % have no sum that a rate explains.
        for code in sorted({l["codigoRetencionMH"] for l in d.lines}):
            self.f930(d, "3", "3", *d.held(code))

    # The F-930: correlativo, NIT, name, calidad (1, the agent), modalidad (1 perception, 3 withholding), code of the document,
    # date, series, number, base, tax. Whatever was withheld or perceived; its second column is a NIT, or a person's DUI.
    def f930(self, d, modality, kind, base, tax):
        p = d.party
        if p.nit or p.dui:
            self.put("f930.csv", d, [p.nit or p.dui, p.name, "1", modality, kind, day(d.date), d.seal, dashless(d.code), money(base), money(tax)])

    # Annex XIX (pp. 55 to 57). Its types (p. 56) have no 15 and no 18.
    def cancelled(self, d):
        if d.type in ("15", "18"):
            return
        keep = self.settings["cancelled_hyphens"]
        number, code = (d.number, d.code) if keep else (dashless(d.number), dashless(d.code))
        self.put("anulados.csv", d, [number, "4", "0", "0", d.type, "D", d.seal, "0", "0", code])

    def finish(self, out):
        # A shared row stands before what adjusts its day.
        totals = lambda invoices: [sum((getattr(d, key) for d in invoices), ZERO) for key in ("exempt", "nonsubject", "taxed")]
        for (date, place, kind, income, apart), pairs in self.days.items():
            invoices = sorted((d for d, _ in pairs), key=Document.order)
            operations = {o for _, o in pairs}
            operation = operations.pop() if len(operations) == 1 else "4"
            if kind == "11":
                of = {c: sum((d.exported for d in invoices if d.column == c), ZERO) for c in "OPQRS"}
                row = self.export_row(date, invoices[0].code, invoices[-1].code, of, operation, str(income))
            else:
                row = self.consumer_row(date, invoices[0].code, invoices[-1].code, *totals(invoices), operation, str(income))
            self.rows["anexo02.csv"].append(((date, 0, 0, 0, place, "", 10_000 * income + 100 * int(kind) + apart), row))
        for (date, place, series, kind), invoices in self.bookdays.items():
            invoices.sort(key=Document.order)
            own, third = ([d for d in invoices if bool(d.third) == other] for other in (False, True))
            amounts = totals([] if kind == "11" else invoices)
            exports, others = (sum((d.exported for d in of if kind == "11"), ZERO) for of in (own, third))
            row = [day(date), place, invoices[0].number, invoices[-1].number, "", *(money(a) for a in [*amounts, exports]),
                   money(sum(amounts) + exports), money(others), str(len(invoices)), ""]
            self.rows["libro_consumidores.csv"].append(((date, 0, 0, 0, series, kind, 0), row))
        numbered = ("libro_contribuyentes.csv", "f930.csv", "extracto_compras.csv", "renta_retenida.csv", "retenciones_por_recibir.csv",
                    "detalle_exportaciones.csv")
        for file in ("anexo01.csv", "anexo02.csv", "anexo05.csv", "anexo09.csv", "anexo10.csv", "anexo12.csv", "anulados.csv",
                     "libro_contribuyentes.csv", "libro_consumidores.csv", *numbered[1:]):
            rows = [cells for _, cells in sorted(self.rows[file], key=lambda r: r[0])]
            if file in numbered:
                rows = [[str(n), *cells] for n, cells in enumerate(rows, 1)]
            if file.startswith("libro"):
                rows += self.ends(file, rows)
            elif file in numbered[2:]:  # sums of the last columns, which are amounts
                amounts = {"extracto_compras.csv": 4, "detalle_exportaciones.csv": 1}.get(file, 2)
                width = {"extracto_compras.csv": 12, "renta_retenida.csv": 8, "detalle_exportaciones.csv": 7}.get(file, 10)
                sums = [money(sum((Decimal(r[k]) for r in rows), ZERO)) for k in range(width - amounts, width)]
                rows += [["Totales", *[""] * (width - amounts - 1), *sums]]
            (out / file).write_text("".join(";".join(r) + "\r\n" for r in rows), encoding="utf-8", newline="")
        self.unplaced(out)

    def ends(self, file, rows):
        """The totals of a book (art. 82), the reckoning of the consumers' VAT (art. 83), and all sales with theirs (art. 85)."""
        sums = lambda rows, first, last: [sum((Decimal(r[k]) for r in rows), ZERO) for k in range(first, last + 1)]
        consumers = [cells for _, cells in self.rows["libro_consumidores.csv"]]
        exempt, nonsubject, gross = sums(consumers, 5, 7)
        # Of a price that includes 13 %, 13 of 113 are VAT, to the nearest cent.
        vat = (gross * 13 / 113).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
        lines = [[""], ["Resumen del débito fiscal de ventas a consumidores"], ["Ventas gravadas con IVA", money(gross)],
                 ["Ventas gravadas sin IVA", money(gross - vat)], ["Débito fiscal (13 de 113)", money(vat)],
                 ["IVA que dicen los documentos", money(self.within)]]
        if file == "libro_consumidores.csv":
            totals = ["Totales", *[""] * 4, *map(money, sums(consumers, 5, 10)), "", ""]
        else:
            totals = ["Totales", *[""] * 7, *map(money, sums(rows, 8, 15))]
            to_taxpayers, to_consumers = sums(rows, 8, 11), [exempt, nonsubject, gross - vat, vat]
            lines += [[""], ["Resumen de ventas", "Exentas", "No sujetas", "Gravadas sin IVA", "Débito fiscal"],
                      ["A contribuyentes", *map(money, to_taxpayers)], ["A consumidores finales", *map(money, to_consumers)],
                      ["Total", *(money(a + b) for a, b in zip(to_taxpayers, to_consumers))], ["Por cuenta de terceros", "0.00", "0.00", money(sums(consumers, 10, 10)[0]), "0.00"]]
        return [totals, *lines, [""], ["Nombre y firma del contador o del contribuyente", ""]]

    def unplaced(self, out):
        nowhere = sorted(d.code for d in self.seen if d.code not in self.placed)
        (out / "sin_archivo.txt").write_text("".join(c + "\n" for c in nowhere))


def hyphened(nrc):
    """An NRC as its card shows it: the last digit after a hyphen."""
    return nrc[:-1] + "-" + nrc[-1] if nrc else ""


def main(month, settings, out):
    made = Month(month, json.loads(Path(settings).read_text()))
    for line in sys.stdin:
        made.add(Document(json.loads(line, parse_float=Decimal)))
    made.finish(Path(out))


main(*sys.argv[1:])
