package health

import (
	"fmt"
	"strings"
	"time"

	"dtegate/engine/refusal"
	"dtegate/storage"
)

// behindRetry is how long a till waits: a person has to decide.
const behindRetry = time.Minute

// checkBehind is nil while no medium of the box knows more than its store. Else nothing is numbered: what the store lacks
// was issued, and its numbers would be used twice.
func checkBehind(list []storage.Witness) error {
	if len(list) == 0 {
		return nil
	}
	english := make([]string, len(list))
	for i := range list {
		english[i] = list[i].String()
	}
	return &refusal.Error{Code: refusal.CodeStoreBehind, RetryAfter: behindRetry,
		English: "Nothing is numbered before dtectl recover: " + strings.Join(english, "; "),
		Message: "Otro medio del equipo conoce documentos que faltan en su base (" + behindInSpanish(list) +
			"): no se emiten documentos nuevos hasta que soporte los concilie con dtectl recover"}
}

// behindInSpanish says which medium knows how much more.
func behindInSpanish(list []storage.Witness) string {
	names := map[string]string{storage.WitnessCopy: "segunda copia", storage.WitnessMark: "marca de números"}
	var said []string
	for _, w := range list {
		text := names[w.Medium]
		if w.Diverged {
			text += ", con otra historia"
		}
		var series []string
		for i, a := range w.Series {
			if i == 3 {
				series = append(series, fmt.Sprintf("y %d series más", len(w.Series)-i))
				break
			}
			if a.Series == "" {
				a.Series = "una serie que falta"
			}
			series = append(series, fmt.Sprintf("%s hasta el %d, aquí el %d", a.Series, a.There, a.Here))
		}
		said = append(said, text+": "+strings.Join(series, "; "))
	}
	return strings.Join(said, "; ")
}
