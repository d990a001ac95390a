package config

import (
	"testing"
	"time"
)

func TestConfig_Rehearsal(t *testing.T) {
	for _, c := range []struct {
		ambiente, url string
		on, good      bool
	}{
		{"01", "https://api.dtes.mh.gob.sv", false, true},
		{"01", "https://api.dtes.mh.gob.sv", true, false},
		{"01", "http://127.0.0.1:8082", true, true},
		{"01", "http://localhost:8082", true, true},
		{"01", "http://[::1]:8082", true, true},
		{"01", "http://127.0.0.1.example.com", true, false},
		{"01", "http://10.0.0.7:8082", true, false},
		{"00", "http://127.0.0.1:8082", true, false},
		{"00", "http://127.0.0.1:8082", false, true},
	} {
		for ahead, good := range map[time.Duration]bool{0: c.good, time.Hour: c.good && (c.on || c.ambiente == "00")} {
			if err := (&Config{Ambiente: c.ambiente, Authority: Authority{URL: c.url, Rehearsal: c.on,
				Ahead: Duration(ahead)}}).rehearsable(); (err == nil) != good {
				t.Errorf("%+v, %v ahead: %v", c, ahead, err)
			}
		}
		err := (&Config{Ambiente: c.ambiente, Authority: Authority{URL: c.url, Rehearsal: c.on}}).rehearsable()
		if (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
