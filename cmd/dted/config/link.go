package config

import (
	"fmt"
	"time"

	"dtegate/engine/authority/connpool"
)

// Link is the way to MH that dted sells over and doctor measures; it connects to nothing yet.
func (a *Authority) Link() *connpool.Link {
	return connpool.New(connpool.Options{URL: a.URL, ConnectTimeout: time.Duration(a.ConnectTimeout)})
}

func (a *Authority) check() error {
	if a.ConnectTimeout == 0 {
		a.ConnectTimeout = Duration(connpool.ConnectTimeout)
	}
	if d := time.Duration(a.ConnectTimeout); d < connpool.MinConnectTimeout || d > connpool.MaxConnectTimeout {
		return fmt.Errorf("authority.connect_timeout: is %v, must be from %v to %v", d, connpool.MinConnectTimeout,
			connpool.MaxConnectTimeout)
	}
	return nil
}
