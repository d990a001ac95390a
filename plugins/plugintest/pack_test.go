package plugintest

import (
	"bytes"
	"maps"
	"testing"

	"dtegate/rules/bundle"
)

// An edition is what bundle.Write makes, to the byte.
func TestEdition(t *testing.T) {
	parts, m := Parts(t, "dte01/v2")
	parts, m.Version = maps.Clone(parts), "9.9.9"
	parts["cases/more.json"] = []byte("{}")
	want, err := bundle.Write(parts, m, Signer())
	if err != nil || !bytes.Equal(Edition(t, "dte01/v2", parts, m, Signer()), want) {
		t.Errorf("%v, or other bytes", err)
	}
}
