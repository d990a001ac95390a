package form

import "dtegate/engine/dte"

// faults is what is wrong with a request, at the request's own paths.
type faults struct{ Faults []dte.Fault }

// full reports whether no further fault will be listed: looking for more would cost time and change nothing.
func (l *faults) full() bool { return len(l.Faults) >= MaxFaults }

func (l *faults) wrong(path, message string) dte.Value {
	l.fault(path, dte.FaultType, message)
	return dte.Value{}
}

func (l *faults) fault(path, code, message string) {
	if !l.full() {
		l.Faults = append(l.Faults, dte.Fault{Path: path, Code: code, Message: message})
	}
}

func (l *faults) contradict(a, b string) {
	l.fault(a, dte.FaultCondition, "Contradice a "+b)
	l.fault(b, dte.FaultCondition, "Contradice a "+a)
}

// faulty reports whether a path has its fault already.
func (l *faults) faulty(path string) bool {
	for _, f := range l.Faults {
		if f.Path == path {
			return true
		}
	}
	return false
}
