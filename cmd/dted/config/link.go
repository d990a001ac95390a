package config

import (
	"fmt"
	"time"

	"dtegate/engine/authority/link"
)

// Link is the way to MH that dted sells over and doctor measures; it connects to nothing yet.
func (a *Authority) Link() *link.Link {
	return link.New(link.Options{URL: a.URL, ConnectTimeout: time.Duration(a.ConnectTimeout)})
}

func (a *Authority) check() error {
	if a.ConnectTimeout == 0 {
		a.ConnectTimeout = Duration(link.ConnectTimeout)
	}
	if d := time.Duration(a.ConnectTimeout); d < link.MinConnectTimeout || d > link.MaxConnectTimeout {
		return fmt.Errorf("authority.connect_timeout: is %v, must be from %v to %v", d, link.MinConnectTimeout, link.MaxConnectTimeout)
	}
	return nil
}
