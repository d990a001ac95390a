package config

import (
	"strings"
	"testing"
	"time"
)

func TestAuthority_ConnectTimeout(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Second: time.Second,
		time.Minute:  time.Minute,
		-time.Second: 0, time.Second - 1: 0, time.Minute + 1: 0, time.Hour: 0} {
		a := Authority{URL: "https://mh.example", PasswordFile: "/p", ConnectTimeout: Duration(given)}
		err := prepare(&a, "authority.", "/")
		switch {
		case want == 0 && (err == nil || !strings.HasPrefix(err.Error(), "authority.connect_timeout: is ")):
			t.Errorf("%v: %v", given, err)
		case want != 0 && (err != nil || a.Link().Limit() != want):
			t.Errorf("%v: %v, the link takes %v", given, err, a.Link().Limit())
		}
	}
}
