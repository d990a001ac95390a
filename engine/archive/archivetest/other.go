package archivetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Other is a server of another make, with the same bucket. It keeps its objects in memory and checks no credentials.
type Other struct{ address string }

// StartOther runs a server of another make until the test ends.
func StartOther(t testing.TB) *Other {
	t.Helper()
	path := gofakes3.build(t, "gofakes3")
	for range 20 { // a port that is free now may be occupied when the server asks for it
		// The server must be given a port. Ports from 32768 on are avoided: the system gives them to other programs.
		o := &Other{address: fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))}
		ln, err := net.Listen("tcp", o.address)
		if err != nil {
			continue
		}
		_ = ln.Close()
		process := exec.Command(path, "-quiet", "-backend", "memory", "-initialbucket", Bucket, "-host", o.address)
		process.Env = append(os.Environ(), "GOMAXPROCS=2")
		var said strings.Builder
		process.Stdout, process.Stderr = &said, &said
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- process.Wait() }()
		for n := 0; n < 1000; n++ {
			if c, err := net.Dial("tcp", o.address); err == nil {
				_ = c.Close()
				t.Cleanup(func() { _ = process.Process.Kill(); <-ended })
				return o
			}
			select {
			case err := <-ended:
				t.Logf("the other S3 server ended: %v: %s", err, said.String())
				n = 1000
			case <-time.After(10 * time.Millisecond): // another process: there is no event to wait for
			}
		}
		_ = process.Process.Kill()
	}
	t.Fatal("the other S3 server does not listen")
	return nil
}

// Endpoint returns the server's address.
func (o *Other) Endpoint() string { return "http://" + o.address }
