package page

import (
	g "maragu.dev/gomponents"
)

// guideView is one thing that a till must know that follows the service's specification to the letter: where this appliance
// fills its gaps, and where it or MH differs.
type guideView struct {
	EN, ES         string // title
	TextEN, TextES string
}

// guide is the page "From another system" of the reference.
var guide = []guideView{
	{"Address and token", "Dirección y token",
		"The appliance answers in the branch, over HTTPS with its own authority: install its ca.pem at the till. Every path under /dte takes x-api-token or Authorization: Bearer; both with different tokens are a 400. A token belongs to one point of sale.",
		"El equipo responde en la sucursal, por HTTPS y con su propia autoridad: instale su ca.pem en la caja. Toda dirección bajo /dte lleva x-api-token o Authorization: Bearer; los dos con tokens distintos son un 400. Cada token es de un punto de venta."},
	{"Retries", "Repeticiones",
		"Send an Idempotency-Key made of the sale's own number with every creation. After a timeout, a cut connection, 408, 429, 500 or 503 send the same request with the same key, not before Retry-After: the answer is the document that the first one made. The same JSON value counts as the same request, however it is written. 422 IDEMPOTENCY_CONFLICT names the document that has the key: do not charge again.",
		"Envíe en cada creación una Idempotency-Key hecha del número de la venta. Tras un tiempo agotado, un corte, 408, 429, 500 o 503 envíe la misma solicitud con la misma clave, no antes de Retry-After: la respuesta es el documento de la primera. Cuenta como igual el mismo valor JSON, aunque se escriba de otra forma. 422 IDEMPOTENCY_CONFLICT nombra el documento que tiene la clave: no cobre otra vez."},
	{"States", "Estados",
		"A 201 is not yet PROCESSED: read estado. PROCESSED has the seal. CONTINGENCIA is a valid document to hand over, with selloRecibido and respuestaMh null; the appliance reports and sends it by itself, and it becomes PROCESSED or REJECTED later: ask documentos-info, or follow /dte/cambios. REJECTED has spent its number: mend the sale and send it with another key. INVALIDATED is a state here too.",
		"Un 201 todavía no es PROCESSED: lea estado. PROCESSED lleva el sello. CONTINGENCIA es un documento válido que se entrega, con selloRecibido y respuestaMh en null; el equipo lo reporta y lo envía solo, y después pasa a PROCESSED o REJECTED: pregunte en documentos-info o siga /dte/cambios. REJECTED gastó su número: corrija la venta y envíela con otra clave. Aquí también hay INVALIDATED."},
	{"What is refused at the counter", "Qué se rechaza en la caja",
		"What MH would refuse for its form or its arithmetic is a 400 with every fault at once, and spends no number; codes of MH's catalogues are MH's to decide while it can be reached, and a 400 in contingency. Show message to the cashier as it is. A member that is not known is refused, but for those of a receptor: a misspelt isRetenIva must not change a tax.",
		"Lo que Hacienda rechazaría por su forma o sus cuentas es un 400 con todas las faltas a la vez, y no gasta número; los códigos de los catálogos los decide Hacienda mientras responde, y en contingencia son un 400. Muestre message al cajero tal cual. Un campo desconocido se rechaza, salvo los de un receptor: un isRetenIva mal escrito no debe cambiar un impuesto."},
	{"Defaults", "Valores por omisión",
		"uniMedida 59, tipoItem 1, tipoImpuesto GRAVADO (EXENTO and NO_SUJETO are taken; SUJETO_EXCLUIDO on 14). descripcion, cantidad and precioUnitario are due on each item of every type. Cash, the whole amount, when condicionOperacion is 1. Prices of 01 include the VAT; those of 03, 05 and 06 do not. A note without receptor takes the original's.",
		"uniMedida 59, tipoItem 1, tipoImpuesto GRAVADO (también EXENTO y NO_SUJETO; SUJETO_EXCLUIDO en 14). descripcion, cantidad y precioUnitario van en cada ítem de todo tipo. Efectivo por el total cuando condicionOperacion es 1. Los precios de 01 incluyen el IVA; los de 03, 05 y 06 no. Una nota sin receptor toma el del original."},
	{"Payment codes", "Códigos de pago",
		"MH's catalogue CAT-017 decides, and it differs from the specification's list: 03 is a credit card and 04 a cheque, where the specification says cheque and transfer. Send 04 for a cheque and 05 for a transfer, or have the operator set payment_codes; until then the answer has a warning in analisisHacienda.observaciones.",
		"Decide el catálogo CAT-017 de Hacienda, que difiere de la lista de la especificación: 03 es tarjeta de crédito y 04 cheque, donde la especificación dice cheque y transferencia. Envíe 04 para un cheque y 05 para una transferencia, o pida que se configure payment_codes; mientras tanto la respuesta lleva un aviso en analisisHacienda.observaciones."},
	{"People", "Personas",
		"NIT, NRC and DUI are taken with or without hyphens and spaces. tipoDocumento and numDocumento go together; on 01 both may be missing below the amount from which MH wants a name. correo must be an address that can be mailed, or be left out.",
		"NIT, NRC y DUI se aceptan con o sin guiones y espacios. tipoDocumento y numDocumento van juntos; en 01 pueden faltar los dos por debajo del monto desde el que Hacienda pide identificar al cliente. correo debe ser una dirección a la que se pueda escribir, o no ir."},
	{"Notes, returns, withholdings", "Notas, devoluciones, retenciones",
		"The original must be PROCESSED and of this branch: 404 DOCUMENT_NOT_FOUND, 409 DOCUMENT_NOT_PROCESSED. Both shapes of 05, 06 and 07 in the specification are taken. A return takes its amounts from the original; it needs the permission of the original's type, as there is none of its own. Invalidation is POST /dte/invalidacion with the permission ANULACION, and cannot be done while MH is away.",
		"El original debe estar PROCESSED y ser de esta sucursal: 404 DOCUMENT_NOT_FOUND, 409 DOCUMENT_NOT_PROCESSED. Se aceptan las dos formas de 05, 06 y 07 de la especificación. Una devolución toma sus montos del original; necesita el permiso del tipo del original, pues no tiene uno propio. La invalidación es POST /dte/invalidacion con el permiso ANULACION, y no se hace mientras Hacienda no responde."},
	{"1 December 2026", "1 de diciembre de 2026",
		"MH's layouts change on that day. The till's requests do not: the appliance writes each document as its day wants it, and dteJson is in the new layout from then on. In production 07 and returns begin on that day; before it they are a 409 NOT_YET_IN_FORCE. The day is El Salvador's (UTC−6), and the date of a document is the appliance's clock, not the till's.",
		"Ese día cambian los formatos de Hacienda. Las solicitudes de la caja no: el equipo escribe cada documento como lo pide su día, y desde entonces dteJson viene en el formato nuevo. En producción 07 y las devoluciones empiezan ese día; antes son un 409 NOT_YET_IN_FORCE. El día es el de El Salvador (UTC−6), y la fecha del documento es la del reloj del equipo, no la de la caja."},
	{"Amounts", "Montos",
		"Amounts are JSON numbers of at most 8 decimals, below 92,000,000,000; read and write them as decimals, never as binary floats. total is a text.",
		"Los montos son números JSON de 8 decimales a lo sumo, menores que 92,000,000,000; léalos y escríbalos como decimales, nunca como flotantes binarios. total es un texto."},
	{"A till in the browser", "Una caja en el navegador",
		"The operator lists the pages that may call in browser_origins; by default there is none. What Content-Type: application/json and the token's header need of CORS is answered for these alone.",
		"Quien administra el equipo lista en browser_origins las páginas que pueden llamar; por omisión no hay ninguna. Lo que Content-Type: application/json y el encabezado del token piden de CORS se contesta solo a ellos."},
}

// guideSection shows the guide: English, and Spanish beside it where there is room.
func guideSection() g.Node {
	return el("section", attr("id", "guide"), txt("h2", "From another system"),
		el("p", g.Text("For a till that follows the service's specification to the letter: what the specification leaves open, and what is otherwise here.")),
		el("p", attr("lang", "es"), g.Text("Para una caja que sigue la especificación al pie de la letra: lo que ella deja abierto y lo que aquí es distinto.")),
		g.Map(guide, func(v guideView) g.Node {
			return el("div", class("pair"),
				el("div", txt("h3", v.EN), txt("p", v.TextEN)),
				el("div", attr("lang", "es"), txt("h3", v.ES), txt("p", v.TextES)))
		}))
}
