package schema

import (
	"strconv"

	"dtegate/engine/dte"
)

// full reports whether enough faults are known.
func (r *run) full() bool { return len(r.faults) >= r.limit }

func (r *run) fail(f dte.Fault) {
	if !r.full() {
		r.faults = append(r.faults, f)
	}
}

// unsaid is the cause of a condition that no sentence says.
const unsaid = "-"

// breach tells that the slot at si breaks the rule, unless r is quiet. What depends on another value has the code
// CONDITION, and is left out where a plain fault was told already.
func (r *run) breach(fi int, si int32, x *rule, code string) verdict {
	if r.quiet > 0 || r.full() {
		return fail
	}
	f := r.filler.fields[fi].fault(x, code, &r.slots[si], r.cause)
	f.Path = r.path(&r.filler.fields[fi])
	if r.cause != "" {
		for i := range r.faults {
			if r.faults[i].Path == f.Path {
				return fail
			}
		}
	}
	r.fail(f)
	return fail
}

// fault is what breaking a rule at the field tells, for a cause if there is one; the path is the caller's.
func (f *field) fault(x *rule, code string, s *slot, cause string) dte.Fault {
	told := dte.Fault{Code: code, Message: x.message(f.document, code, s)}
	if cause != "" {
		told.Code = dte.FaultCondition
		if cause != unsaid {
			told.Message += ", " + cause
		}
	}
	return told
}

// breachNumber tells that a number is no Amount. The layout meets every number before any condition does.
func (r *run) breachNumber(fi int, s *slot) verdict {
	if r.quiet == 0 && r.cause == "" {
		f := dte.Fault{Path: r.path(&r.filler.fields[fi]), Code: dte.FaultPrecision, Message: quote(s) + " tiene más de 8 decimales"}
		if _, err := dte.ParseAmount(s.text); err == dte.ErrRange {
			f.Code, f.Message = dte.FaultRange, quote(s)+" no está por debajo de 92,000,000,000"
		}
		for i := range r.faults {
			if r.faults[i].Path == f.Path {
				return fail
			}
		}
		r.fail(f)
	}
	return fail
}

func (r *run) breachRepeat(fi int, first int32) verdict {
	if r.quiet == 0 {
		r.fail(dte.Fault{Path: r.path(&r.filler.fields[fi]), Code: dte.FaultDuplicate, Message: "repite el elemento " + strconv.Itoa(int(first))})
	}
	return fail
}

func (r *run) breachCode(fi int, code string) {
	r.fail(dte.Fault{Path: r.path(&r.filler.fields[fi]), Code: dte.FaultCatalogue, Message: lacksCode(r.filler.fields[fi].list, code)})
}

func (r *run) path(f *field) string {
	if r.document {
		return expandPath(f.document, r.index[:])
	}
	return expandPath(f.path, r.index[:])
}
