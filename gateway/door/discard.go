package door

import (
	"net"
	"time"
)

// Discard reads what a client still sends, up to 16 MiB, for two seconds or until the client pauses. Closing a connection with
// unread bytes would reset it, and the client would never see the answer.
func Discard(c net.Conn) {
	var b [32 << 10]byte
	end := time.Now().Add(2 * time.Second)
	for n := 0; n < 16<<20 && time.Now().Before(end); {
		if c.SetReadDeadline(time.Now().Add(200*time.Millisecond)) != nil {
			return
		}
		k, err := c.Read(b[:])
		if err != nil {
			return
		}
		n += k
	}
}
