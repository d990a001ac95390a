package gateway

import (
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/form"
	"dtegate/gateway/problem"
)

// checkQuery refuses a query with a member that the route does not have (a misspelt filter must not choose everything), or
// with one member twice (which of the two counts is anybody's guess). names are the route's own.
func checkQuery(ctx *fasthttp.RequestCtx, names []string) error {
	q := ctx.QueryArgs()
	if q.Len() == 0 {
		return nil
	}
	var faults []dte.Fault
	seen := make(map[string]bool, len(names))
	for key := range q.All() {
		name := string(key)
		switch {
		case len(faults) == form.MaxFaults:
		case !slices.Contains(names, name) && len(names) == 0:
			faults = append(faults, dte.Fault{Path: name, Code: dte.FaultUnknown, Message: "No se conoce: esta ruta no lleva parámetros"})
		case !slices.Contains(names, name):
			faults = append(faults, dte.Fault{Path: name, Code: dte.FaultUnknown, Message: "No se conoce; los parámetros son " + strings.Join(names, ", ")})
		case seen[name]:
			faults = append(faults, dte.Fault{Path: name, Code: dte.FaultDuplicate, Message: "El parámetro está dos veces"})
		}
		seen[name] = true
	}
	return problem.WrongParameters(faults)
}

// singleHeader returns the value of a header that decides something, nil when it is missing. Two of them are refused: which one
// counts is anybody's guess, and a proxy may guess otherwise.
func singleHeader(h *fasthttp.RequestHeader, name string) ([]byte, error) {
	values := h.PeekAll(name)
	if len(values) > 1 {
		return nil, problem.ForTill(fasthttp.StatusBadRequest, refusal.CodeValidation, "La solicitud lleva dos encabezados "+name)
	}
	return h.Peek(name), nil
}
