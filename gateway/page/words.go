package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
)

// words are the page's texts by key: Spanish, English.
var words = map[string][2]string{
	"branch":      {"Sucursal", "Branch"},
	"other":       {"English", "Español"},
	"ambiente.00": {"Pruebas", "Test"},
	"ambiente.01": {"Producción", "Production"},
	"updated":     {"Hora de El Salvador", "Time in El Salvador"},
	"refresh":     {"se actualiza sola cada 15 s", "refreshes itself every 15 s"},

	"verdict.ok":        {"Emite con normalidad", "Issuing normally"},
	"verdict.ok.advice": {"Las cajas pueden vender. No hay nada que hacer.", "Tills can sell. Nothing needs doing."},
	"verdict.watch":     {"Emite con normalidad", "Issuing normally"},
	"verdict.watch.advice": {"Las cajas pueden vender. Vea abajo lo que está en amarillo: puede esperar al " +
		"próximo día hábil.", "Tills can sell. See below what is yellow: it can wait until the next working day."},
	"verdict.attention": {"Emite, pero algo necesita atención", "Issuing, but something needs attention"},
	"verdict.attention.advice": {"Las cajas pueden vender. Vea abajo lo que está en rojo y avise a soporte.",
		"Tills can sell. See below what is red, and tell central IT."},
	"verdict.red": {"Además, vea abajo lo que está en rojo y avise a soporte.",
		"Besides, see below what is red, and tell central IT."},
	"verdict.contingency": {"Emite en contingencia", "Issuing in contingency"},
	"verdict.contingency.advice": {"Las cajas pueden vender e imprimir. El equipo reportará y enviará todo a " +
		"Hacienda por sí mismo.", "Tills can sell and print. The box will report and send everything to MH by " +
		"itself."},
	"verdict.unsure": {"Emite; Hacienda no respondió", "Issuing; MH did not answer"},
	"verdict.unsure.advice": {"Las cajas pueden vender. Si Hacienda sigue sin responder, la sucursal entra " +
		"sola en contingencia.", "Tills can sell. If MH stays silent the branch goes into contingency by itself."},
	"verdict.late": {"Emite, pero hay un plazo vencido", "Issuing, but a deadline has passed"},
	"verdict.late.advice": {"Las cajas pueden vender. Vea abajo qué venció y avise a impuestos.",
		"Tills can sell. See below what is late, and tell the tax team."},
	"verdict.rejecting": {"Hacienda rechaza lo que se emite", "MH refuses what is issued"},
	"verdict.rejecting.advice": {"Las cajas siguen vendiendo, pero estos documentos no valen. Avise a soporte " +
		"ahora: central puede volver a la regla anterior (dtectl rules rollback).",
		"Tills go on selling, but these documents are not valid. Tell central IT now: it can go back to the rule " +
			"before (dtectl rules rollback)."},
	"verdict.stopped":  {"No emite documentos", "Not issuing documents"},
	"verdict.password": {"Hacienda rechaza la contraseña", "MH refuses the password"},
	"verdict.password.advice": {"Las cajas pueden vender en contingencia, pero esto no se arregla solo y " +
		"Hacienda bloquea cuentas. Avise a soporte ahora: una contraseña nueva en el portal de Hacienda y, en " +
		"este equipo, como root:", "Tills can sell in contingency, but this does not mend itself, and MH " +
		"locks accounts. Tell central IT now: a new password in MH's portal and, on this box, as root:"},
	"password.expired": {"La contraseña de la API venció.", "The password of the API has expired."},
	"password.change":  {"Hacienda pide cambiar la contraseña de la API.", "MH wants the password of the API changed."},
	"password.wrong": {"El usuario o la contraseña de la API no es el que Hacienda tiene.",
		"The user or the password of the API is not the one that MH has."},
	"stopped.rules": {"Ninguna regla vale hoy.", "No rule is valid today."},
	"verdict.stopped.advice": {"Las cajas no pueden facturar hasta que se resuelva. Lo ya emitido está a " +
		"salvo y se sigue enviando.", "Tills cannot invoice until this is solved. What was issued is safe and " +
		"goes on being sent."},

	"mh":                   {"Hacienda", "MH (tax authority)"},
	"mh.up":                {"Responde", "Answers"},
	"mh.refused":           {"Rechaza la contraseña", "Refuses the password"},
	"mh.down":              {"No responde", "No answer"},
	"mh.why.timeout":       {"no contesta a tiempo", "no answer in time"},
	"mh.why.name":          {"no se encuentra su dirección (DNS)", "its name is not found (DNS)"},
	"mh.why.fault":         {"contesta con un error", "it answers with an error"},
	"mh.why.link":          {"no hay conexión", "no connection"},
	"mh.unasked":           {"Sin consultar", "Not asked yet"},
	"mh.unasked.note":      {"nadie ha vendido desde el inicio", "nobody has sold since the start"},
	"contingency":          {"Contingencia", "Contingency"},
	"contingency.none":     {"No", "No"},
	"contingency.on":       {"Sí", "Yes"},
	"contingency.declared": {"declarada por un operador", "declared by an operator"},
	"cause.1":              {"Hacienda no está disponible.", "MH is not available."},
	"cause.2":              {"El sistema de la sucursal no está disponible.", "The branch's system is not available."},
	"cause.3":              {"La sucursal no tiene Internet.", "The branch has no Internet."},
	"cause.4":              {"Falta energía eléctrica.", "There is no electric power."},
	"cause.5":              {"Otra causa.", "Another cause."},
	"owed":                 {"Por enviar a Hacienda", "To send to MH"},
	"oldest":               {"desde", "since"},
	"since":                {"desde", "since"},

	"today": {"Documentos de hoy", "Documents today"},
	"partial": {"Contando todavía: faltan documentos en el gráfico.",
		"Still counting: the chart lacks documents."},
	"none.today":            {"Hoy no se ha emitido ninguno.", "None was issued today."},
	"chart.peak":            {"Hora con más", "Busiest hour"},
	"chart.normal":          {"normales", "normal"},
	"chart.contingency":     {"en contingencia", "in contingency"},
	"chart.rejected":        {"rechazados", "rejected"},
	"legend":                {"Según cómo se emitieron", "As they were issued"},
	"authorisation":         {"Autorización de Hacienda", "Authorisation by MH"},
	"authorisation.of":      {"de", "out of"},
	"authorisation.waiting": {"en espera", "waiting"},
	"authorisation.refused": {"rechazados", "refused"},
	"authorisation.missing": {"Pruebas que faltan:", "Tests still missing:"},
	"authorisation.done":    {"Hacienda recibió el mínimo de pruebas.", "MH has the minimum of tests."},
	"authorisation.since":   {"Cuentan las pruebas desde el", "Tests count since"},
	"authorisation.partial": {"Contando todavía.", "Still counting."},
	"month":                 {"Lo que va de", "So far in"},
	"month.this":            {"Este mes", "This month"},
	"month.counting": {"Contando por primera vez desde el arranque.",
		"Counting for the first time since the start."},
	"month.none":         {"Este mes no se ha emitido ninguno.", "None was issued this month."},
	"month.CONTINGENCIA": {"sin sello todavía", "without a seal yet"},
	"month.REJECTED":     {"rechazados", "rejected"},
	"month.INVALIDATED":  {"invalidados", "invalidated"},

	"document.contingencia": {"Evento de contingencia", "Contingency event"},
	"document.invalidacion": {"Evento de invalidación", "Invalidation event"},
	"document.catalogues":   {"Catálogos", "Catalogues"},

	"waiting": {"Pendiente", "What waits"},
	"waiting.none": {"Nada: todo lo emitido tiene respuesta de Hacienda.",
		"Nothing waits: MH has answered everything that was issued."},
	"queue.settle":      {"Por resolver", "To settle"},
	"queue.settle.note": {"enviados, sin respuesta todavía", "sent, no answer yet"},
	"queue.report":      {"Por reportar", "To report"},
	"queue.report.note": {"emitidos en contingencia, esperan su evento",
		"issued in contingency, waiting for their event"},
	"queue.event":        {"Eventos de contingencia", "Contingency events"},
	"queue.event.note":   {"firmados, por sellar en Hacienda", "signed, to be sealed by MH"},
	"queue.forward":      {"Por enviar", "To send"},
	"queue.forward.note": {"reportados, esperan su lote", "reported, waiting for their lot"},
	"queue.lost":         {"Perdidos", "Lost"},
	"queue.lost.note": {"el almacén perdió parte de ellos: dtectl queue los nombra",
		"the store has lost a piece of them: dtectl queue names them"},
	"queue.lot":             {"Lotes", "Lots"},
	"queue.lot.note":        {"enviados, Hacienda los procesa", "sent, MH is at work on them"},
	"queue.invalidate":      {"Invalidaciones", "Invalidations"},
	"queue.invalidate.note": {"firmadas, sin respuesta todavía", "signed, no answer yet"},
	"queue.correct":         {"Por corregir", "To correct"},
	"queue.correct.note": {"Hacienda los rechazó después de entregados: corríjalos desde la caja",
		"MH refused them after they were handed over: correct them from the till"},
	"deadlines":           {"Plazos", "Deadlines"},
	"deadline.event":      {"Evento de contingencia", "Contingency event"},
	"deadline.documents":  {"Documentos de contingencia", "Contingency documents"},
	"deadline.correction": {"Evento rechazado", "Refused event"},
	"deadline.report": {"Informe técnico a Hacienda (contingencia de más de tres días), antes del evento",
		"Technical report to MH (contingency of more than three days), before the event"},
	"deadline.refused": {"Documentos rechazados, con el mismo código", "Refused documents, under the same code"},
	"refused":          {"Hacienda rechazó un evento:", "MH refused an event:"},

	"rules":   {"Reglas", "Rules"},
	"live":    {"Vigentes", "Live"},
	"coming":  {"Por venir", "Coming"},
	"from":    {"desde el", "from"},
	"until":   {"hasta el", "until"},
	"expired": {"venció el", "ended on"},
	"rule.damaged": {"dañada en el almacén: no calcula nada; envíela otra vez (dtectl doctor)",
		"damaged in the store: it computes nothing; push it again (dtectl doctor)"},
	"rule.unvouched": {"sin firma válida: no calcula nada (dtectl doctor)",
		"nobody's signature: it computes nothing (dtectl doctor)"},
	"rule.rejects": {"Hacienda rechaza", "MH refuses"},
	"rules.refused": {"Reglas rechazadas; la sucursal sigue sin ellas",
		"Refused rules; the branch goes on without them"},
	"returned": {"La sucursal volvió sola a una regla anterior:",
		"The branch stepped back to an earlier rule by itself:"},

	"deliveries": {"Entregas", "Deliveries"},
	"mail":       {"Correo", "Mail"},
	"archive":    {"Archivo", "Archive"},
	"mail.trouble": {"el servidor de correo no acepta nada; se intenta otra vez",
		"the mail server takes nothing; it is tried again"},
	"archive.trouble": {"el archivo no acepta nada; se intenta otra vez",
		"the archive takes nothing; it is tried again"},
	"pending":  {"pendientes", "waiting"},
	"off":      {"Sin configurar", "Not configured"},
	"given.up": {"entregas abandonadas: dtectl delivery", "deliveries given up: dtectl delivery"},

	"box":           {"Equipo", "Box"},
	"copy":          {"Segunda copia", "Second copy"},
	"copy.live":     {"Al día", "Live"},
	"copy.stopped":  {"Detenida", "Stopped"},
	"chain":         {"Cadena", "Chain"},
	"chain.asked":   {"consultada", "asked"},
	"chain.unasked": {"la central aún no responde; las ventas siguen", "the centre has not answered yet; sales go on"},
	"chain.trouble": {"no sigue lo que la central ordena; las ventas siguen",
		"does not do what the centre desires; sales go on"},
	"chain.refused": {"el almacén de la cadena no acepta la cuenta de este equipo, o está lleno; las ventas " +
		"siguen: avise a soporte", "the chain's store refuses this box's account, or is full; sales go on: tell " +
		"central IT"},
	"chain.unbound": {"la central no ha inscrito en este equipo, y no se emite en:",
		"the centre has not enrolled here, and nothing is issued at:"},
	"chain.lacks": {"la central perdió parte de la copia de esta sucursal; las ventas siguen",
		"the centre has lost part of this branch's copy; sales go on"},
	"chain.replaced": {"otro equipo tiene esta sucursal: aquí no se emite",
		"another box has this branch: nothing is issued here"},
	"disk":               {"Espacio libre", "Free space"},
	"disk.reserve":       {"deja de emitir bajo", "stops issuing below"},
	"clock":              {"Reloj", "Clock"},
	"clock.note":         {"de diferencia con el de Hacienda", "apart from MH's"},
	"expires.signing":    {"Certificado de firma", "Signing certificate"},
	"expires.api":        {"TLS de las cajas", "TLS of the tills"},
	"expires.ops":        {"TLS de operación", "TLS of operations"},
	"expires.ca":         {"Autoridad TLS propia", "Own TLS authority"},
	"engine":             {"Motor de reglas", "Rule engine"},
	"engine.compiler":    {"Compilador", "Compiler"},
	"engine.interpreter": {"Intérprete", "Interpreter"},
	"version":            {"Versión", "Version"},
	"started":            {"en marcha desde", "running since"},

	"trouble":       {"Últimos avisos", "Last warnings"},
	"detail":        {"Detalle técnico", "Technical detail"},
	"trouble.other": {"Un aviso del equipo", "A warning of the box"},
	"trouble.none":  {"Ninguno desde el inicio.", "None since the start."},
	"times":         {"veces", "times"},
	"ended":         {"terminó a las", "over at"},
	"more":          {"Más: /status (JSON), /metrics, RUNBOOK", "More: /status (JSON), /metrics, RUNBOOK"},
	"left":          {"faltan", "in"},
	"overdue":       {"venció hace", "late by"},
}

// say returns a text of the page. For an unknown key, it returns the key's last word.
func say(lang, key string) string {
	switch w, ok := words[key]; {
	case ok && lang == "en":
		return w[1]
	case ok:
		return w[0]
	}
	return key[strings.LastIndexByte(key, '.')+1:]
}

// documentName returns the name in words of a type of document, of an event or of the catalogues.
func documentName(lang, document string) string {
	t := record.TypeOf(document)
	switch {
	case t.Document == "":
		return say(lang, "document."+document)
	case lang == "es":
		return t.Es + " (" + document + ")"
	}
	return t.En + " (" + document + ")"
}

// unanswered returns why MH did not answer, as far as the appliance knows.
func unanswered(lang, why string) string {
	kind := "link"
	switch {
	case why == "timeout":
		kind = "timeout"
	case strings.HasPrefix(why, "DNS: "):
		kind = "name"
	case strings.HasPrefix(why, "HTTP "):
		kind = "fault"
	}
	return say(lang, "mh.why."+kind)
}

func clock(t time.Time) string { return t.In(dte.Zone).Format("15:04:05") }

// months are the names of the months. Dates show their first three letters.
var months = map[string][]string{
	"es": strings.Fields("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
	"en": strings.Fields("January February March April May June July August September October November December"),
}

// moment returns a time of day, with its date unless the date is today.
func moment(lang string, t, now time.Time) string {
	t = t.In(dte.Zone)
	if dte.Date(t) == dte.Date(now) {
		return t.Format("15:04")
	}
	return fmt.Sprintf("%d %s %s", t.Day(), months[lang][t.Month()-1][:3], t.Format("15:04"))
}

// momentText returns a moment, and how long ago it was.
func momentText(lang string, t, now time.Time) string {
	if t.IsZero() {
		return "–"
	}
	ago := dte.Span(now.Sub(t))
	if lang == "es" {
		return moment(lang, t, now) + " (hace " + ago + ")"
	}
	return moment(lang, t, now) + " (" + ago + " ago)"
}

// remaining returns the time until a deadline, or the time since then.
func remaining(lang string, at, now time.Time) string {
	if left := at.Sub(now); left > 0 {
		return say(lang, "left") + " " + dte.Span(left)
	}
	return say(lang, "overdue") + " " + dte.Span(now.Sub(at))
}

// day returns a date, yyyy-mm-dd, as people write it.
func day(lang, date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return fmt.Sprintf("%d %s %d", t.Day(), months[lang][t.Month()-1][:3], t.Year())
}

// count writes a number with commas, as both languages do in El Salvador.
func count(n int) string { return pdf.Printed(strconv.Itoa(n), 0) }

// clockDifference returns how far apart two clocks are.
func clockDifference(d time.Duration) string {
	if d.Abs() < time.Second {
		return "< 1 s"
	}
	return dte.Span(d.Abs())
}

func size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
