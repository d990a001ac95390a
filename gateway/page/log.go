package page

import "strings"

// logged is what each warning and error of the log means, in Spanish, by its message. The Spanish page shows these
// sentences: whoever reads it at a counter cannot read the log, which is English. A test finds every message of the
// sources here.
var logged = map[string]string{
	// Hacienda: contingency, events, lots, invalidations.
	"in contingency":       "La sucursal entró en contingencia",
	"still in contingency": "La sucursal sigue en contingencia",
	"entering contingency": "No se pudo registrar la entrada en contingencia; se intenta otra vez",
	"leaving contingency": "No se pudo registrar la salida de la contingencia; se intenta " +
		"otra vez",
	"reporting a contingency":        "Hacienda no respondió al evento de contingencia; se envía otra vez",
	"MH refuses a contingency event": "Hacienda rechazó un evento de contingencia; el equipo prepara otro",
	"MH refuses a document issued in contingency": "Hacienda rechazó un documento emitido en contingencia: corríjalo " +
		"desde la caja",
	"MH refuses a lot": "Hacienda rechazó un lote; sus documentos se envían en lotes más " +
		"pequeños",
	"no answer to a lot":      "Hacienda no respondió a un lote; se consulta por sus documentos",
	"asking for a lot":        "Hacienda no respondió a la consulta de un lote; se consulta otra vez",
	"sending an invalidation": "Hacienda no respondió a una invalidación; se envía otra vez",
	"sending what is owed":    "No se pudo enviar a Hacienda lo pendiente; se intenta otra vez",
	"counting what is owed":   "No se pudo contar lo pendiente",
	"recovering documents": "No se pudo recuperar documentos del arranque anterior; se intenta " +
		"otra vez",
	"resuming invalidations": "No se pudo retomar invalidaciones del arranque anterior; se " +
		"intenta otra vez",
	"MH accepted a document that it had refused": "Hacienda aceptó un documento que antes había rechazado",
	"reading the facts of a refused document":    "No se pudieron leer los datos de un documento rechazado",
	"MH sealed a document after the backup that was restored, and does not tell in which form: compare with MH's " +
		"public page": "Hacienda selló un documento después del respaldo que se restauró: compárelo con la consulta " +
		"pública",
	"the archive holds a form that this store lacks: it is the record now": "El archivo tenía una forma de un documento que faltaba aquí; ahora es la del registro",

	// Numbers that other media know.
	"reading which series are held": "No se pudo leer en la base qué series están detenidas",
	"holding series in the store: a restart would forget it": "No se pudo anotar en la base que las series están " +
		"detenidas; un reinicio lo olvidaría",
	"a witness outside of the box knows more numbers than the store: nothing is numbered before dtectl recover": "Un testigo fuera de este equipo conoce números que faltan en este equipo: no se emiten documentos nuevos hasta que soporte los concilie",
	"nothing is numbered before dtectl recover":                                                                 "Otro medio del equipo conoce documentos que faltan en su base: no se emiten documentos nuevos hasta que soporte los concilie",
	"reading the document whose number MH holds":                                                                "No se pudo leer el documento cuyo número Hacienda ya tiene",
	"the archive holds many documents that this store does not know: only the latest were compared":             "El archivo tiene muchos documentos que este equipo no conoce; solo se compararon los últimos",
	"the next start will refuse the mark: do not restart":                                                       "La marca de números cambió por fuera: no reinicie el equipo y avise a soporte",
	"the old mark stays where it was; the store does not take it any more":                                      "La marca de números anterior quedó donde estaba; ya no se usa",

	// Rules.
	"the rules in force describe a type otherwise than before": "Las reglas vigentes describen un tipo de documento " +
		"de otra manera que antes",
	"rule bundle refused":  "Se rechazó una regla enviada; la sucursal sigue con la anterior",
	"rules went back":      "La sucursal volvió a una regla anterior",
	"a rule was cancelled": "Se canceló una regla",
	"a rule does harm, and the dates of the rule before are over": "Una regla causa daño, y la anterior ya terminó su " +
		"vigencia",
	"a rule failed": "Una regla falló al calcular una venta",
	"a rule does harm and has no predecessor": "Una regla falla y no hay otra " +
		"anterior a la que volver: avise a soporte",
	"returning to the last good rule": "No se pudo volver a la regla " +
		"anterior",
	"turning to the day's rules": "No se pudieron tomar las reglas " +
		"del día; se intenta otra vez",
	"a note on the stored rules": "Hay una nota sobre las reglas " +
		"almacenadas: avise a soporte",
	"shipped rule bundles are left out": "No se tomaron reglas que vinieron " +
		"con la instalación; la sucursal sigue con las que tiene",
	"a stored rule may not compute: push it again": "Una regla almacenada no puede " +
		"calcular: hay que enviarla otra vez",
	"a stored rule could not be marked as this box's: the next start tries again": "No se pudo marcar una regla como " +
		"de este equipo; el próximo arranque lo intenta otra vez",
	"no catalogue bundle among the rules may be used: nothing can be issued": "Ningún catálogo de Hacienda entre " +
		"las reglas puede usarse: no se emiten documentos",
	"comparing a sale with the shadow": "No se pudo comparar una venta con " +
		"la regla en prueba",
	"unloading a rule module that is not called": "No se pudo sacar de la memoria " +
		"una regla que no se usa",
	"a record is set aside, the others go on": "El almacén perdió parte de un " +
		"registro: queda aparte y los demás siguen",
	"trying lost records again": "No se pudo volver a intentar los " +
		"registros perdidos",
	"the store lost what a document took of its origin": "El almacén perdió lo que un " +
		"documento tomó de su original",
	"closing an instance of a rule module": "No se pudo cerrar una regla en uso",
	"closing a rule module that nobody refers to": "No se pudo cerrar una regla que " +
		"ya no se usa",
	"closing rule host": "No se pudo cerrar el motor de " +
		"reglas",
	"the cache of compiled rules failed; the module is compiled again": "Falló la caché de reglas " +
		"compiladas; la regla se compila otra vez",
	"a folder of the cache of compiled rules is left behind": "Quedó una carpeta vieja de la " +
		"caché de reglas",

	// Deliveries.
	"delivering":          "No se pudo trabajar en las entregas; se intenta otra vez",
	"composing a message": "No se pudo preparar un correo",
	"mailing a document":  "No se pudo enviar un correo; se intenta otra vez",
	"mailing a document issued in contingency": "No se pudo enviar el correo de un documento emitido en " +
		"contingencia",
	"a message is refused for good": "El servidor de correo rechazó un correo " +
		"definitivamente: revise la dirección",
	"archiving a document": "No se pudo archivar un documento; se intenta otra vez",
	"the webhook does not take late results; they wait": "El sistema que recibe los resultados tardíos no " +
		"responde bien; los resultados esperan",
	"the store has lost the webhook's place: it begins anew": "Se perdió hasta dónde se entregaron los resultados " +
		"tardíos; se entregan otra vez desde el principio",
	"the archive does not take a document": "El archivo no recibe un documento",

	// The store, its copies and its disk.
	"store is damaged":                          "La base del equipo está dañada: avise a soporte de inmediato",
	"store stops":                               "La base del equipo se detuvo por un fallo del disco",
	"the store's engine reports an error":       "La base del equipo informa de un error",
	"the disk does not take the store's tables": "El disco no recibe los datos de la base",
	"store's work in the background failed":     "Falló un trabajo interno de la base",
	"writes wait":                               "Las escrituras esperan al disco",
	"disk is full: nothing new is issued":       "El disco está lleno: no se emiten documentos nuevos",
	"ballast given up":                          "Se liberó la reserva de espacio: el disco está casi lleno",
	"ballast stays":                             "No se pudo liberar la reserva de espacio del disco",
	"no ballast":                                "No se pudo apartar la reserva de espacio del disco",
	"checkpoint stays":                          "No se pudo borrar una copia temporal de la base",
	"closing store":                             "No se pudo cerrar bien la base",
	"the store was made of other media, and numbers nothing before dtectl recover has settled it": "La base fue " +
		"restaurada y no emite hasta que soporte la concilie",
	"reading the whole store failed": "No se pudo leer toda la base en la revisión diaria",
	"counting today's documents":     "No se pudieron contar los documentos de hoy",
	"counting for the authorisation": "No se pudieron contar los documentos para la autorización",
	"counting the month's documents": "No se pudieron contar los documentos del mes",
	"backup failed":                  "Falló un respaldo",
	"second copy is not written":     "No se escribe la segunda copia",
	"second copy does not answer: whether it knows more than the store is not known": "La segunda copia no responde; " +
		"no se sabe si conoce más que la base",
	"the second copy's medium hangs: the store's files stay open until it answers": "El medio de la segunda copia " +
		"no responde; los archivos de la base quedan abiertos hasta que responda",
	"an old second copy was set aside, and a new one is begun": "Se apartó una segunda copia " +
		"anterior y se comenzó otra",
	"a segment of the second copy is bad": "Una parte de la segunda copia " +
		"está dañada",
	"a bad segment of the second copy stays": "Una parte dañada de la segunda " +
		"copia no se pudo reponer",
	"a bad segment of the second copy was written anew from the store": "Una parte dañada de la segunda " +
		"copia se repuso desde la base",

	// Clock, access, trail.
	"clock is wrong: nothing new is issued":                                                                   "El reloj está mal: no se emiten documentos nuevos",
	"MH's clock is taken for wrong":                                                                           "La hora de Hacienda no coincide; se confía en la del equipo",
	"the token file cannot be used: the tokens before it stay good":                                           "El archivo de tokens no se puede usar; siguen valiendo los anteriores",
	"a change of tokens is not recorded":                                                                      "No se pudo registrar un cambio de tokens",
	"a refused change of tokens is not recorded":                                                              "No se pudo registrar un cambio de tokens que se rechazó",
	"a certificate cannot be used: the one before goes on being served":                                       "Un certificado no se puede usar; se sigue sirviendo el anterior",
	"another authority is not recorded":                                                                       "No se pudo registrar el cambio de autoridad TLS",
	"an act of a till is not in the trail":                                                                    "No se pudo anotar en la bitácora una acción de una caja",
	"the outcome of an act is not recorded":                                                                   "No se pudo anotar en la bitácora cómo terminó una acción",
	"failed logins are not in the trail":                                                                      "No se pudieron anotar en la bitácora intentos de acceso fallidos",
	"a return to an earlier rule is not in the trail":                                                         "No se pudo anotar en la bitácora la vuelta a una regla anterior",
	"a repair of the store is not in the trail; the next start tries again":                                   "No se pudo anotar en la bitácora una reparación de la base; el próximo arranque lo intenta otra vez",
	"the box's key cannot be used: records bear no mark, and only rules that pinned keys have signed compute": "La llave del equipo no se puede usar: los registros no llevan su marca",
	"the memory can be read by other processes of this account":                                               "Otros procesos de la misma cuenta pueden leer la memoria del equipo",
	"rehearsal of production: simulated seals are believed, and no document is valid":                         "Ensayo de producción: los sellos son simulados y ningún documento es válido",
	"supervisor is not told":                                                                                  "No se pudo informar del estado al sistema operativo",

	// The chain.
	"the chain's centre": "Hay un problema con la central de la cadena: las ventas siguen",
	"another box has this branch: nothing is numbered here any more": "Otro equipo tiene ahora esta " +
		"sucursal: aquí no se emiten más documentos",
	"the last desired state has no effect: no pinned key has signed it": "Lo último que ordenó la " +
		"central no está firmado por una llave fijada: no tiene efecto",
	"an act of the chain's centre is not in the trail": "No se pudo anotar en la " +
		"bitácora una acción de la central de la cadena",
	"another copy of this box ships under its name: nothing is numbered here any more": "Otra copia de este equipo " +
		"está en marcha: aquí no se emiten más documentos",
	"how much of the second copy is not shipped is not known": "No se sabe cuánto de la " +
		"segunda copia falta por enviar",
	"sales do not wait for the chain's store any more": "Las ventas ya no esperan al " +
		"almacén de la cadena",
	"what the chain's store holds of the second copy cannot be checked": "No se pudo comprobar lo que " +
		"la central tiene de la segunda copia; se intenta otra vez",
	"a rebuild from the chain's store would not be complete": "La central perdió parte de " +
		"la segunda copia: una reconstrucción no estaría completa",
	"the chain's store has lost what was shipped, and gets it again": "La central perdió parte de " +
		"la segunda copia; se envía otra vez",
	"reading the last numbers for the status": "No se leyeron los últimos " +
		"números para el estado que va a la central",
	"the second copy is not shipped to the chain's store": "La segunda copia no llega al " +
		"almacén de la cadena; se intenta otra vez",
	"the fleet's state cannot be read and is begun anew": "No se pudo leer el estado de " +
		"la cadena en este equipo; se comienza otro",

	// Requests.
	"a secret is open to others":            "Otros usuarios del equipo pueden leer un secreto: avise a soporte",
	"request failed":                        "Falló una solicitud",
	"a request panicked":                    "Una solicitud hizo fallar el programa; los demás siguen",
	"the tokens' bytes of today begin anew": "No se pudo leer cuánto guardó hoy cada caja; la cuenta empieza de nuevo",
}

// Ends are the lines of the log that end a trouble: the message of the trouble by that of its end.
var Ends = map[string]string{
	"the disk takes the store's tables again": "the disk does not take the store's tables",
	"out of contingency":                      "in contingency",
	"clock is right again":                    "clock is wrong: nothing new is issued",
	"disk has room again":                     "disk is full: nothing new is issued",
	"second copy is live":                     "second copy is not written",
	"the mark is as it was written again":     "the next start will refuse the mark: do not restart",
	"sales wait for the chain's store":        "sales do not wait for the chain's store any more",
}

// notice is what the page says of a line of the log, and what it keeps folded: the sentence of its message, and the
// line itself, which is English.
func notice(lang string, x Trouble) (text, raw string) {
	raw = masked(x.Text)
	if lang != "es" {
		if text = x.Message; text == "" {
			return raw, ""
		}
		return strings.ToUpper(text[:1]) + text[1:], raw
	}
	if text = logged[x.Message]; text == "" {
		text = say(lang, "trouble.other")
	}
	return text, raw
}
