package config

import (
	"errors"
	"fmt"
)

// Access is what a till's token may do beside issuing.
type Access struct {
	// Reading is "branch" (default): every token reads all documents of the branch; or "permission": those that it may
	// issue, and all with CONSULTA.
	Reading string `toml:"reading"`
	// Mailing is "permission" (default): only a token with REENVIO mails a document to an address that the document
	// does not bear; or "branch": every token does.
	Mailing string `toml:"mailing"`
	// Log is "on" (default): a line of the log for each request of a till that changes or sends something, and for each
	// that is refused for want of a token; or "off".
	Log string `toml:"log"`
}

func (a *Access) check() error {
	var faults []error
	for _, v := range []struct {
		name, preset, other string
		value               *string
	}{{"reading", "branch", "permission", &a.Reading}, {"mailing", "permission", "branch", &a.Mailing},
		{"log", "on", "off", &a.Log}} {
		switch *v.value {
		case "":
			*v.value = v.preset
		case v.preset, v.other:
		default:
			faults = append(faults, fmt.Errorf("access.%s: is %q, must be %q or %q", v.name, *v.value, v.preset,
				v.other))
		}
	}
	return errors.Join(faults...)
}
