// Package books makes the accountant's files of a month from the sealed documents: the annexes of the VAT return F-07
// v14, the VAT books of sales, the monthly report F-930, and a summary that names every document that is in no file.
// The package turns values into files, without a store and HTTP.
//
// The manual is MH's "Manual de usuario para carga de archivo de los anexos de la declaración … F-07 V14" (January
// 2025); its pages are cited as "p. 3". The VAT books follow articles 82 to 87 of the Tax Code's regulation (DE
// 117-2001).
//
// A document belongs to the month of its fecEmi, an invalidation to the month of its event. The files of each document:
//
//	what                                     files
//	01 sealed                                anexo02 (p. 7), libro_consumidores (art. 83)
//	03, 05, 06 sealed                        anexo01 (p. 1), libro_contribuyentes (art. 85); perception: anexo09
//	                                         (p. 37) and f930 too
//	05, 06 sealed, of a withholding voucher  none: no rule bundle computes such a note; named in resumen.json
//	07 sealed                                anexo10 (1 %, p. 41), anexo12 (13 %, p. 47), f930 with a row for each
//	                                         code; other cases (C9) in f930 alone; extracto_compras (art. 86) too
//	11 sealed                                anexo02, columns O to S (p. 9), libro_consumidores, and if it is the
//	                                         taxpayer's own detalle_exportaciones (art. 84); not in anexo02: goods
//	                                         and services together, or for a domiciled third party
//	09 sealed                                f930; annex 11 (p. 45) by hand
//	04, 08, 15 sealed                        none; named in resumen.json with the steps to do by hand
//	14 sealed                                anexo05 (p. 22); extracto_compras; with 13 % withheld f930 too;
//	                                         with income tax withheld renta_retenida too
//	01, 03, 05, 06 sealed, VAT withheld      retenciones_por_recibir too
//	18 sealed, of an invoice 01              libro_consumidores, subtracted (art. 87); anexo02 if Settings.Returns
//	18 sealed, of a document 14              none: anexo05 accepts no negative amounts; named in resumen.json
//	invalidated, event in the month          anulados (p. 55), whatever the document's month; not 15 and 18, which
//	                                         are not in the list of types
//	01 invalidated in a later month          its own month as sealed; the event's month: a negative row (p. 10)
//	11 invalidated in a later month          likewise; anexo02 only for column Q: O, P, R, S take no negative amounts
//	18 invalidated in a later month          likewise; the month of the event adds the amounts again
//	others invalidated                       anulados alone: annexes 1, 5, 9, 10 and 12 take no invalidated
//	                                         documents and nothing negative
//	in contingency, without a seal           none: the annexes require the seal; named in resumen.json
//	refused, or without an outcome           none; named in resumen.json
package books
