package operator

import (
	"os"
	"os/user"
	"strings"
	"sync"
)

// Who is the operator, as the branch's record names him: the person who logged in, also behind sudo, doas and su, and the
// machine. A box's account alone (root, dted) says nothing of who it was. It is the operator's own word, and no proof. It is
// found once, before root becomes the box's account.
var Who = sync.OnceValue(func() string {
	name := person(os.Getenv, func() string {
		b, _ := os.ReadFile("/proc/self/loginuid") // none outside Linux, and then nobody
		return strings.TrimSpace(string(b))
	})
	if name == "" {
		name = "somebody"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
})

// person is the name of who asked for another account; "" when nobody did, or nobody knows. loginuid is the kernel's word on who
// logged in, which su does not change.
func person(environment func(string) string, loginuid func() string) string {
	for _, name := range []string{"SUDO_USER", "DOAS_USER"} {
		if asked := environment(name); asked != "" && asked != "root" {
			return asked
		}
	}
	id := loginuid()
	if id == "" || id == "0" || id == "4294967295" { // the last: nobody logged in, as in a service
		return ""
	}
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return ""
}
