package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSend_Accepted(t *testing.T) {
	s := serve(t, nil)
	o := s.sender(t, nil).Send(t.Context(), letterTo("a@x.example"))
	if o.Kind != Sent || o.Err != nil || o.Doubtful || o.Setup {
		t.Fatalf("%+v", o)
	}
	got := s.taken()
	if len(got) != 1 || got[0].from != "dte@tienda.example" ||
		strings.Join(got[0].to, " ") != "a@x.example" {
		t.Errorf("%+v", got)
	}
}

// The server's answer decides, at each place where it can answer.
func TestSend_Replies(t *testing.T) {
	for name, c := range map[string]struct {
		at    string
		code  int
		kind  Kind
		setup bool
	}{
		"sender refused":           {"mail", 553, Later, true},
		"sender later":             {"mail", 451, Later, false},
		"receiver unknown":         {"rcpt", 550, Refused, false},
		"receiver later":           {"rcpt", 450, Later, false},
		"message refused":          {"data", 554, Refused, false},
		"message later":            {"data", 452, Later, false},
		"server going away":        {"mail", 421, Later, false},
		"server going away at end": {"data", 421, Later, false},
	} {
		t.Run(name, func(t *testing.T) {
			no := reply(c.code, "no,\r\n por\tahora")
			s := serve(t, func(s *server) {
				switch c.at {
				case "mail":
					s.mail = func() error { return no }
				case "rcpt":
					s.rcpt = func(string) error { return no }
				case "data":
					s.data = func() error { return no }
				}
			})
			o := s.sender(t, nil).Send(t.Context(), letterTo("a@x.example"))
			if o.Kind != c.kind || o.Code != c.code || o.Setup != c.setup || o.Doubtful || o.Err == nil {
				t.Errorf("%+v", o)
			}
			if len(s.taken()) != 0 || !strings.Contains(o.Err.Error(), fmt.Sprint(c.code, " no, por ahora")) {
				t.Errorf("%d taken, %v", len(s.taken()), o.Err)
			}
		})
	}
}

func TestSend_LaterThenAccepted(t *testing.T) {
	answers := []error{reply(451, "greylisted"), reply(421, "busy"), nil}
	s := serve(t, func(s *server) {
		s.rcpt = func(string) error {
			next := answers[0]
			answers = answers[1:]
			return next
		}
	})
	sender, m := s.sender(t, nil), letterTo("a@x.example")
	for _, want := range []Kind{Later, Later, Sent} {
		if o := sender.Send(t.Context(), m); o.Kind != want {
			t.Fatalf("%+v, want %d", o, want)
		}
	}
	if got := s.taken(); len(got) != 1 || !bytes.Contains(got[0].raw, []byte("<"+m.ID+">")) {
		t.Errorf("%d taken", len(got))
	}
}

// cutting ends a connection after that many bytes in one direction.
type cutting struct {
	net.Conn
	reads, writes int // left; negative: without end
}

func (c *cutting) Read(p []byte) (int, error)  { return c.limit(&c.reads, p, c.Conn.Read) }
func (c *cutting) Write(p []byte) (int, error) { return c.limit(&c.writes, p, c.Conn.Write) }

func (c *cutting) limit(left *int, p []byte, do func([]byte) (int, error)) (int, error) {
	if *left < 0 {
		return do(p)
	}
	n, err := 0, error(nil)
	if part := p[:min(len(p), *left)]; len(part) > 0 {
		n, err = do(part)
		*left -= n
	}
	if *left == 0 && err == nil && n < len(p) {
		_ = c.Close()
		err = errors.New("connection reset by peer")
	}
	return n, err
}

// The line is cut at every byte, in both directions. A message for which the server answers is Sent or in doubt; for a
// message that is Sent the server has answered.
func TestSend_CutAnywhere(t *testing.T) {
	s := serve(t, nil)
	sent, doubtful, later := 0, 0, 0
	attempt := func(reads, writes int) Outcome {
		before := len(s.taken())
		sender := s.sender(t, func(o *Options) {
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := s.dial(ctx, network, address)
				return &cutting{c, reads, writes}, err
			}
		})
		o := sender.Send(t.Context(), letterTo("a@x.example"))
		taken := len(s.taken()) > before
		if o.Kind == Refused || taken && o.Kind != Sent && !o.Doubtful || o.Kind == Sent && !taken {
			t.Fatalf("cut after reading %d, writing %d: taken %v, %+v", reads, writes, taken, o)
		}
		switch {
		case o.Kind == Sent:
			sent++
		case o.Doubtful:
			doubtful++
		default:
			later++
		}
		return o
	}
	for n := 0; ; n++ {
		if attempt(n, -1).Kind == Sent {
			break
		}
	}
	for n := 0; ; n++ {
		if attempt(-1, n).Kind == Sent {
			break
		}
	}
	t.Logf("%d later, %d doubtful, %d sent", later, doubtful, sent)
	if doubtful == 0 || later < 1000 {
		t.Error("the cuts missed the conversation")
	}
}

// scripted is a server that sends these lines, one after each line that it gets after the first, and then nothing more.
func scripted(t *testing.T, lines ...string) *Sender {
	t.Helper()
	sender, err := New(Options{
		Host: "mx.example", Security: None, From: "dte@tienda.example",
		Dial: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				for _, line := range lines {
					if _, err := there.Write([]byte(line)); err != nil {
						return
					}
					hear(there)
				}
				for hear(there) {
				}
			}()
			return here, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

// hear receives one write of the other side.
func hear(c net.Conn) bool {
	_, err := c.Read(make([]byte, 1<<16))
	return err == nil
}

// Silence at any place ends with the timeout, or with the caller's patience.
func TestSend_Silence(t *testing.T) {
	conversation := []string{"220 hi\r\n", "250 mx.example\r\n", "250 ok\r\n", "250 ok\r\n", "354 go\r\n"}
	for n := range len(conversation) + 1 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			o := scripted(t, conversation[:n]...).Send(t.Context(), letterTo("a@x.example"))
			if o.Kind != Later || !errors.Is(o.Err, context.DeadlineExceeded) || time.Since(began) != 2*time.Minute {
				t.Errorf("silent after %d replies: %+v after %s", n, o, time.Since(began))
			}
			if o.Doubtful != (n == len(conversation)) {
				t.Errorf("silent after %d replies: %+v", n, o)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if o := scripted(t).Send(ctx, letterTo("a@x.example")); o.Kind != Later || time.Since(began) != 3*time.Second {
			t.Errorf("%+v after %s", o, time.Since(began))
		}
	})
}

// A server that answers nonsense has not accepted the message.
func TestSend_Nonsense(t *testing.T) {
	for name, lines := range map[string][]string{
		"http":            {"HTTP/1.1 400 Bad Request\r\n\r\n"},
		"binary":          {"\x00\xff\x16\x03\x01\r\n"},
		"no code":         {"hello\r\n"},
		"short":           {"22\r\n"},
		"busy":            {"554 no service here\r\n"},
		"endless":         {"220-" + strings.Repeat("x", 2<<20)},
		"endless lines":   {strings.Repeat("220-x\r\n", 1<<18)},
		"ehlo nonsense":   {"220 hi\r\n", "250-\r\n250 \xff\r\n", "999 what\r\n"},
		"go ahead at end": {"220 hi\r\n", "250 x\r\n", "250 ok\r\n", "250 ok\r\n", "354 go\r\n", "354 go\r\n"},
		"data without go": {"220 hi\r\n", "250 x\r\n", "250 ok\r\n", "250 ok\r\n", "250 ok\r\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			o := scripted(t, lines...).Send(t.Context(), letterTo("a@x.example"))
			if o.Kind != Later || o.Err == nil || o.Setup || time.Since(began) != 0 {
				t.Errorf("%s: %+v after %s", name, o, time.Since(began))
			}
		})
	}
}

// The same over a real socket, through the sender's own dialer.
func TestSend_Socket(t *testing.T) {
	config, roots := certified(t, "localhost")
	s := serve(t, func(s *server) { s.TLSConfig, s.users = config, map[string]string{"dte": "clave"} })
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }() // ends with the server
	sender := s.sender(t, func(o *Options) {
		o.Dial, o.Host, o.Port = nil, "localhost", l.Addr().(*net.TCPAddr).Port
		o.Security, o.Roots, o.User, o.Password = Mandatory, roots, "dte", "clave"
	})
	m := letterTo("a@x.example")
	m.Attachments[0].Data = bytes.Repeat([]byte("x"), 2<<20)
	if o := sender.Send(t.Context(), m); o.Kind != Sent || len(s.taken()) != 1 {
		t.Errorf("%+v", o)
	}
}

func TestSend_NoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	sender, err := New(Options{Host: "127.0.0.1", Port: port, From: "dte@tienda.example"})
	if err != nil {
		t.Fatal(err)
	}
	if o := sender.Send(t.Context(), letterTo("a@x.example")); o.Kind != Later || o.Doubtful || o.Setup ||
		o.Err == nil {
		t.Errorf("%+v", o)
	}
}
