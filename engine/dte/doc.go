// Package dte is the vocabulary of electronic tax documents (documentos tributarios electrónicos): facts, codes, money
// and catalogues. Facts and documents are Values, numbers are Amounts in 1e-8 units, never floats. It does no I/O and
// reads no clock. Its subpackage schema makes a document from facts.
//
// # Glossary
//
// The Spanish terms are those that travel on the wire. Their meanings are:
//
//	ambiente            00 the authority's test system, 01 production (CAT-001)
//	apéndice            up to ten rows of a label and a value, chosen by the emitter
//	catálogo            one of MH's code lists, CAT-001 to CAT-033
//	código de actividad the trade of a taxpayer (CAT-019)
//	codigoGeneracion    the UUID under which MH knows a document or an event
//	condición de la operación  cash, credit or other (CAT-016)
//	contingencia        issuing while MH cannot be reached: documents are signed, marked, and sent later
//	crédito fiscal (comprobante de)  type 03, the invoice between taxpayers: prices without VAT
//	cuerpoDocumento     the lines
//	departamento, municipio, distrito  the three levels of an address (CAT-012, CAT-013, CAT-008)
//	DTE                 documento tributario electrónico
//	DUI                 a person's identity number, 9 digits
//	emisor              who issues
//	exento, no sujeto, gravado  exempt from VAT, outside VAT, subject to it
//	factura             type 01, the consumer's invoice: prices with VAT inside
//	fecEmi, horEmi      day and time of issue, in El Salvador
//	FOVIAL, COTRANS     the two fuel levies per gallon
//	invalidación        the event that makes a sealed document void
//	IVA                 value added tax, 13 %
//	MH                  Ministerio de Hacienda, the tax authority
//	montoDescu          a line's discount, in total and not per unit
//	NIT, NRC            a taxpayer's number; its number as a VAT payer
//	noGravado           a charge or credit outside the tax base
//	nota de crédito, nota de débito  types 05 and 06: take from, or add to, a document
//	numeroControl       the control number: type, establishment, point of sale and sequence
//	percepción          1 % that a large seller collects on top of VAT
//	psv                 suggested retail price
//	receptor            who receives
//	resumen             the totals
//	retención           1 % of VAT withheld by a large buyer; type 07 certifies it
//	retorno             event 18: goods of a sealed document come back
//	saldoFavor          the buyer's credit, zero or below
//	sello (selloRecibido)  MH's receipt: forty characters without which a document is not yet valid
//	sujeto excluido     a seller who is no VAT payer; type 14 documents buying from one
//	tipoModelo, tipoOperacion  1 ordinary; 2 made, and sent, in contingency
//	totalLetras         the total in words
//	tributo             any tax or levy (CAT-015); 20 is IVA
//
// Comments cite MT1 and MT2, the Manual Técnico v1.0 (02/2023) and v2.0 (25-05-2026), MF2, the Manual Funcional V2.0
// (05/2026), and NV2, the Normativa de Cumplimiento v2.0 (25-05-2026).
package dte
