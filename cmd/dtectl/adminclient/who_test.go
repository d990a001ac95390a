package adminclient

import (
	"os/user"
	"testing"
)

func TestPerson(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	own := me.Username
	if me.Uid == "0" {
		own = "" // root logged in: the account itself is all there is
	}
	for _, c := range []struct{ sudo, doas, login, want string }{
		{sudo: "eva", want: "eva"}, {doas: "iris", want: "iris"}, {sudo: "eva", login: "0", want: "eva"}, {sudo: "root",
			want: ""},
		{login: "4294967295", want: ""}, {login: "0", want: ""}, {login: "", want: ""}, {login: "99999999", want: ""},
		{login: me.Uid, want: own},
	} {
		environment := func(name string) string {
			return map[string]string{"SUDO_USER": c.sudo,
				"DOAS_USER": c.doas}[name]
		}
		if got := person(environment, func() string { return c.login }); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
