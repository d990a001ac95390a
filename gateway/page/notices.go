package page

import "strings"

// logged maps the message of each warning and error of the log to a Spanish sentence. The Spanish page shows these
// sentences, because people at a counter cannot read the log, which is English. A test checks that every message of the
// sources is here.
var logged = func() map[string]string {
	m := make(map[string]string)
	for _, s := range sentences {
		for _, message := range s[1:] {
			m[message] = s[0]
		}
	}
	return m
}()

// sentences are lists: a Spanish sentence, then the messages that it explains.
var sentences = [][]string{
	// Hacienda: contingency, events, lots, invalidations.
	{"La sucursal entró en contingencia", "in contingency"},
	{"La sucursal sigue en contingencia", "still in contingency"},
	{"No se pudo registrar un cambio de la contingencia; se intenta otra vez", "entering contingency",
		"leaving contingency"},
	{"Hacienda no respondió al evento de contingencia; se envía otra vez", "reporting a contingency"},
	{"Hacienda rechazó un evento de contingencia; el equipo prepara otro", "MH refuses a contingency event"},
	{"Hacienda rechazó un documento emitido en contingencia: corríjalo desde la caja",
		"MH refuses a document issued in contingency"},
	{"Hacienda rechazó un lote; sus documentos se envían en lotes más pequeños", "MH refuses a lot"},
	{"Hacienda no respondió por un lote; se consulta otra vez", "no answer to a lot", "asking for a lot"},
	{"Hacienda no respondió a una invalidación; se envía otra vez", "sending an invalidation"},
	{"No se pudo enviar a Hacienda lo pendiente; se intenta otra vez", "sending what is owed"},
	{"No se pudieron contar los documentos; se cuentan otra vez", "counting what is owed", "counting today's documents",
		"counting for the authorisation", "counting the month's documents"},
	{"No se pudo retomar lo pendiente del arranque anterior; se intenta otra vez", "recovering documents",
		"resuming invalidations"},
	{"Hacienda aceptó un documento que antes había rechazado", "MH accepted a document that it had refused"},
	{"No se pudo leer un documento del almacén", "reading the facts of a refused document",
		"reading the document whose number MH holds"},
	{"Hacienda selló un documento después del respaldo que se restauró: compárelo con la consulta pública",
		"MH sealed a document after the restored backup, in an unknown form: compare with MH's public page"},
	{"El archivo tenía una forma de un documento que faltaba aquí; ahora es la del registro",
		"the archive holds a form that this store lacks: it is the record now"},

	// Numbers that are known outside of the box's store.
	{"No se pudo leer en la base qué series están detenidas", "reading which series are held"},
	{"No se pudo anotar en la base que las series están detenidas; un reinicio lo olvidaría",
		"holding series in the store: a restart would forget it"},
	{"Otro medio conoce documentos que faltan en este equipo: no se emiten nuevos hasta que soporte los concilie",
		"a witness outside of the box knows more numbers: nothing is numbered before dtectl recover",
		"nothing is numbered before dtectl recover"},
	{"El archivo tiene muchos documentos que este equipo no conoce; solo se compararon los últimos",
		"the archive holds many documents that this store lacks: only the latest were compared"},
	{"La marca de números cambió por fuera: no reinicie el equipo y avise a soporte",
		"the next start will refuse the mark: do not restart"},
	{"La marca de números anterior quedó donde estaba; ya no se usa",
		"the old mark stays where it was; the store no longer accepts it"},

	// Rules.
	{"Las reglas vigentes describen un tipo de documento de otra manera que antes",
		"the rules in force describe a type otherwise than before"},
	{"Se rechazó una regla enviada; la sucursal sigue con la anterior", "rule bundle refused"},
	{"La sucursal volvió a una regla anterior", "rules went back"},
	{"Se canceló una regla", "a rule was cancelled"},
	{"Una regla causa daño, y la anterior ya terminó su vigencia",
		"a rule does harm, and the dates of the rule before are over"},
	{"Una regla falló al calcular una venta", "a rule failed"},
	{"Una regla falla y no hay otra anterior a la que volver: avise a soporte",
		"a rule does harm and has no predecessor"},
	{"No se pudo volver a la regla anterior", "returning to the last good rule"},
	{"No se pudieron tomar las reglas del día; se intenta otra vez", "turning to the day's rules"},
	{"Hay una nota sobre las reglas almacenadas: avise a soporte", "a note on the stored rules"},
	{"No se tomaron reglas que vinieron con la instalación; la sucursal sigue con las que tiene",
		"shipped rule bundles are left out"},
	{"Una regla almacenada no puede calcular: hay que enviarla otra vez",
		"a stored rule may not compute: push it again"},
	{"No se pudo marcar una regla como de este equipo; el próximo arranque lo intenta otra vez",
		"a stored rule could not be marked as this box's: the next start tries again"},
	{"Ningún catálogo de Hacienda entre las reglas puede usarse: no se emiten documentos",
		"no catalogue bundle among the rules may be used: nothing can be issued"},
	{"No se pudo comparar una venta con la regla en prueba", "comparing a sale with the shadow"},
	{"El motor de reglas tuvo una falla menor; las ventas siguen", "unloading a rule module that is not called",
		"closing an instance of a rule module", "closing a rule module that nobody refers to", "closing rule host",
		"the cache of compiled rules failed; the module is compiled again",
		"a folder of the cache of compiled rules is left behind"},
	{"El almacén perdió parte de un registro: queda aparte y los demás siguen",
		"a record is set aside, the others go on"},
	{"No se pudo volver a intentar los registros perdidos", "trying lost records again"},
	{"El almacén perdió lo que un documento tomó de su original", "the store lost what a document took of its origin"},

	// Deliveries.
	{"No se pudo trabajar en las entregas; se intenta otra vez", "delivering"},
	{"No se pudo preparar o enviar un correo; se intenta otra vez", "composing a message", "mailing a document",
		"mailing a document issued in contingency"},
	{"El servidor de correo rechazó un correo definitivamente: revise la dirección", "a message is refused for good"},
	{"El archivo no recibe un documento; se intenta otra vez", "archiving a document",
		"the archive does not take a document"},
	{"El sistema que recibe los resultados tardíos no responde bien; los resultados esperan",
		"the webhook does not take late results; they wait"},
	{"Se perdió hasta dónde se entregaron los resultados tardíos; se entregan otra vez desde el principio",
		"the store has lost the webhook's place: it begins anew"},

	// The store, its copies and its disk.
	{"La base del equipo está dañada: avise a soporte de inmediato", "store is damaged"},
	{"La base del equipo se detuvo por un fallo del disco", "store stops"},
	{"La base del equipo informa de un error", "the store's engine reports an error"},
	{"El disco no recibe los datos de la base", "the disk does not take the store's tables"},
	{"Falló un trabajo interno de la base", "store's work in the background failed"},
	{"Las escrituras esperan al disco", "writes wait"},
	{"El disco está lleno: no se emiten documentos nuevos", "disk is full: nothing new is issued"},
	{"Se liberó la reserva de espacio: el disco está casi lleno", "ballast given up"},
	{"No se pudo apartar o liberar la reserva de espacio del disco", "no ballast", "ballast stays"},
	{"No se pudo borrar una copia temporal de la base", "checkpoint stays"},
	{"No se pudo cerrar bien la base", "closing store"},
	{"La base fue restaurada y no emite hasta que soporte la concilie",
		"the store was made of other media, and numbers nothing before dtectl recover has settled it"},
	{"No se pudo leer toda la base en la revisión diaria", "reading the whole store failed"},
	{"Falló un respaldo", "backup failed"},
	{"No se escribe la segunda copia", "second copy is not written"},
	{"La segunda copia no responde; no se sabe si conoce más que la base",
		"second copy does not answer: whether it knows more than the store is not known"},
	{"El medio de la segunda copia no responde; los archivos de la base quedan abiertos hasta que responda",
		"the second copy's medium hangs: the store's files stay open until it answers"},
	{"Se apartó una segunda copia anterior y se comenzó otra",
		"an old second copy was set aside, and a new one is begun"},
	{"Una parte de la segunda copia está dañada", "a segment of the second copy is bad"},
	{"Una parte dañada de la segunda copia no se pudo reponer", "a bad segment of the second copy stays"},
	{"Una parte dañada de la segunda copia se repuso desde la base",
		"a bad segment of the second copy was written anew from the store"},

	// Clock, access, trail.
	{"El reloj está mal: no se emiten documentos nuevos", "clock is wrong: nothing new is issued"},
	{"La hora de Hacienda no coincide; se confía en la del equipo", "MH's clock seems wrong"},
	{"El archivo de tokens no se puede usar; siguen valiendo los anteriores",
		"the token file cannot be used: the previous tokens stay valid"},
	{"No se pudo anotar algo en la bitácora del equipo; se sigue sin ello", "a change of tokens is not recorded",
		"a refused change of tokens is not recorded", "another authority is not recorded",
		"an act of a till is not in the trail", "the outcome of an act is not recorded",
		"failed logins are not in the trail", "a return to an earlier rule is not in the trail",
		"a repair of the store is not in the trail; the next start tries again",
		"an act of the chain's centre is not in the trail"},
	{"Un certificado no se puede usar; se sigue sirviendo el anterior",
		"a certificate cannot be used: the previous one is still served"},
	{"La llave del equipo no se puede usar: los registros no llevan su marca",
		"the box's key cannot be used: records bear no mark, and only rules that pinned keys signed compute"},
	{"Otros procesos de la misma cuenta pueden leer la memoria del equipo",
		"the memory can be read by other processes of this account"},
	{"Ensayo de producción: los sellos son simulados y ningún documento es válido",
		"rehearsal of production: simulated seals are believed, and no document is valid"},
	{"No se pudo informar del estado al sistema operativo", "supervisor cannot be notified"},

	// The chain.
	{"Hay un problema con la central de la cadena: las ventas siguen", "the chain's centre"},
	{"Otro equipo tiene ahora esta sucursal: aquí no se emiten más documentos",
		"another box has this branch: nothing is numbered here any more"},
	{"Lo último que ordenó la central no está firmado por una llave fijada: no tiene efecto",
		"the last desired state has no effect: no pinned key has signed it"},
	{"Otra copia de este equipo está en marcha: aquí no se emiten más documentos",
		"another copy of this box ships under its name: nothing is numbered here any more"},
	{"No se sabe cuánto de la segunda copia falta por enviar",
		"how much of the second copy is not shipped is not known"},
	{"Las ventas ya no esperan al almacén de la cadena", "sales do not wait for the chain's store any more"},
	{"No se pudo comprobar lo que la central tiene de la segunda copia; se intenta otra vez",
		"what the chain's store holds of the second copy cannot be checked"},
	{"La central perdió parte de la segunda copia: una reconstrucción no estaría completa",
		"a rebuild from the chain's store would not be complete"},
	{"La central perdió parte de la segunda copia; se envía otra vez",
		"the chain's store has lost what was shipped, and gets it again"},
	{"No se leyeron los últimos números para el estado que va a la central", "reading the last numbers for the status"},
	{"La segunda copia no llega al almacén de la cadena; se intenta otra vez",
		"the second copy is not shipped to the chain's store"},
	{"No se pudo leer el estado de la cadena en este equipo; se comienza otro",
		"the fleet's state cannot be read and is begun anew"},

	// Requests.
	{"Otros usuarios del equipo pueden leer un secreto: avise a soporte", "a secret is open to others"},
	{"Falló una solicitud", "request failed"},
	{"Una solicitud hizo fallar el programa; los demás siguen", "a request panicked"},
	{"No se pudo leer cuánto guardó hoy cada caja; la cuenta empieza de nuevo",
		"the tokens' bytes of today begin anew"},
}

// Ends maps the log message that ends a trouble to the message of that trouble.
var Ends = map[string]string{
	"the disk takes the store's tables again": "the disk does not take the store's tables",
	"out of contingency":                      "in contingency",
	"clock is right again":                    "clock is wrong: nothing new is issued",
	"disk has room again":                     "disk is full: nothing new is issued",
	"second copy is live":                     "second copy is not written",
	"the mark is as it was written again":     "the next start will refuse the mark: do not restart",
	"sales wait for the chain's store":        "sales do not wait for the chain's store any more",
}

// notice returns what the page shows for a line of the log: the sentence of its message, and, folded, the line itself,
// which is English.
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
