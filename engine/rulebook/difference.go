package rulebook

import (
	"strconv"

	"dtegate/engine/dte"
)

// Difference is an amount that differs between two documents. Old and New are written as in the documents; "" means that the
// document has no such amount.
type Difference struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Differences returns the numbers that differ, without those of identificacion, which are no amounts. It leaves out a number of
// one layout if the other layout has no place for it.
func Differences(old, made dte.Value) (list []Difference) {
	for _, m := range old.Members() {
		if m.Name != "identificacion" {
			list = compareAmounts(list, m.Name, m.Value, made.Get(m.Name))
		}
	}
	return list
}

func compareAmounts(list []Difference, path string, old, made dte.Value) []Difference {
	if !old.Exists() || !made.Exists() {
		return list
	}
	switch {
	case old.Kind() == dte.KindNumber || made.Kind() == dte.KindNumber:
		a, b := valueText(old), valueText(made)
		if a != b {
			list = append(list, Difference{path, a, b})
		}
	case old.Kind() == dte.KindArray || made.Kind() == dte.KindArray:
		for i := range max(old.Len(), made.Len()) {
			at := path + "[" + strconv.Itoa(i) + "]"
			switch {
			case i >= old.Len():
				list = appear(list, at, made.Index(i), false)
			case i >= made.Len():
				list = appear(list, at, old.Index(i), true)
			default:
				list = compareAmounts(list, at, old.Index(i), made.Index(i))
			}
		}
	case old.Kind() == dte.KindObject:
		for _, m := range old.Members() {
			list = compareAmounts(list, path+"."+m.Name, m.Value, made.Get(m.Name))
		}
	}
	return list
}

// appear lists the numbers of a value that the other document has nothing for: one more tax, one line fewer.
func appear(list []Difference, path string, v dte.Value, gone bool) []Difference {
	switch v.Kind() {
	case dte.KindNumber:
		d := Difference{Path: path, New: v.Text()}
		if gone {
			d.Old, d.New = d.New, ""
		}
		list = append(list, d)
	case dte.KindObject:
		for _, m := range v.Members() {
			list = appear(list, path+"."+m.Name, m.Value, gone)
		}
	}
	return list
}

func valueText(v dte.Value) string {
	if v.Kind() != dte.KindNumber {
		return ""
	}
	if a, err := v.Amount(); err == nil {
		return a.String()
	}
	return v.Text()
}
