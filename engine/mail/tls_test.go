package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"dtegate/engine/redacted"
)

// recorded keeps the clear text of a connection, and may change what arrives.
type recorded struct {
	net.Conn
	sent *bytes.Buffer
	hear func([]byte) []byte // may be nil; must not lengthen
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if r.hear != nil {
		n = copy(p, r.hear(p[:n]))
	}
	return n, err
}

func (r *recorded) Write(p []byte) (int, error) {
	r.sent.Write(p)
	return r.Conn.Write(p)
}

// tap returns a Dial that records what is sent, as an eavesdropper would.
func (s *server) tap(sent *bytes.Buffer, hear func([]byte) []byte) func(context.Context, string, string) (net.Conn,
	error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := s.dial(ctx, network, address)
		return &recorded{c, sent, hear}, err
	}
}

func TestSend_TLS(t *testing.T) {
	config, roots := certified(t, "mx.example")
	other, otherRoots := certified(t, "mail.other.example")
	strip := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("STARTTLS"), []byte("XTARTTLS")) }
	for name, c := range map[string]struct {
		security Security
		offers   *tls.Config
		roots    *x509.CertPool
		hear     func([]byte) []byte
		sent     bool
		clear    bool // the message went over the wire in the clear
		err      string
	}{
		"mandatory":                       {Mandatory, config, roots, nil, true, false, ""},
		"mandatory, not offered":          {Mandatory, nil, roots, nil, false, false, "STARTTLS"},
		"mandatory, offer stripped":       {Mandatory, config, roots, strip, false, false, "STARTTLS"},
		"mandatory, unknown authority":    {Mandatory, config, otherRoots, nil, false, false, "certificate"},
		"mandatory, another's name":       {Mandatory, other, otherRoots, nil, false, false, "certificate"},
		"opportunistic":                   {Opportunistic, config, roots, nil, true, false, ""},
		"opportunistic, not offered":      {Opportunistic, nil, roots, nil, true, true, ""},
		"opportunistic, bad certificate":  {Opportunistic, other, roots, nil, false, false, "certificate"},
		"none":                            {None, config, roots, nil, true, true, ""},
		"default is mandatory":            {"", nil, roots, nil, false, false, "STARTTLS"},
		"mandatory, plain TLS of the 90s": {Mandatory, old(config), roots, nil, false, false, "protocol version"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent bytes.Buffer
			s := serve(t, func(s *server) { s.TLSConfig = c.offers })
			o := s.sender(t, func(o *Options) {
				o.Security, o.Roots, o.Dial = c.security, c.roots, s.tap(&sent, c.hear)
			}).Send(t.Context(), letterTo("a@x.example"))
			if (o.Kind == Sent) != c.sent || (len(s.taken()) == 1) != c.sent {
				t.Fatalf("%+v, %d taken", o, len(s.taken()))
			}
			if bytes.Contains(sent.Bytes(), []byte("a@x.example")) != c.clear {
				t.Errorf("sent in the clear: %q", sent.String())
			}
			if c.sent {
				return
			}
			if o.Kind != Later || o.Doubtful || !strings.Contains(o.Err.Error(), c.err) {
				t.Errorf("%+v", o)
			}
			if setup := c.err != "protocol version"; o.Setup != setup {
				t.Errorf("setup %v: %+v", o.Setup, o)
			}
		})
	}
}

// old supports nothing newer than TLS 1.1.
func old(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	return c
}

// On port 465 the first byte is TLS's.
func TestSend_ImplicitTLS(t *testing.T) {
	config, roots := certified(t, "mx.example")
	s := serve(t, nil)
	var sent bytes.Buffer
	relay := wire{make(chan net.Conn), s.done}
	go func() {
		for { // the server behind its TLS
			c, err := relay.Accept()
			if err != nil {
				return
			}
			select {
			case s.conns <- tls.Server(c, config):
			case <-s.done:
			}
		}
	}()
	change := func(o *Options) {
		o.Security, o.Port, o.Roots = Mandatory, 465, roots
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "mx.example:465" {
				return nil, fmt.Errorf("dialled %s", address)
			}
			c, err := relay.dial(ctx, network, address)
			return &recorded{c, &sent, nil}, err
		}
	}
	if o := s.sender(t, change).Send(t.Context(), letterTo("a@x.example")); o.Kind != Sent {
		t.Fatalf("%+v", o)
	}
	if bytes.Contains(sent.Bytes(), []byte("EHLO")) || bytes.Contains(sent.Bytes(), []byte("a@x.example")) {
		t.Errorf("in the clear: %q", sent.String())
	}
	_, others := certified(t, "mx.example")
	o := s.sender(t, func(o *Options) { change(o); o.Roots = others }).Send(t.Context(), letterTo("a@x.example"))
	if o.Kind != Later || !o.Setup || len(s.taken()) != 1 {
		t.Errorf("%+v", o)
	}
}

func TestSend_Login(t *testing.T) {
	const password = "clave-del-buzon.2026"
	for name, c := range map[string]struct {
		password redacted.Text
		security Security
		users    map[string]string
		busy     error
		sent     bool
	}{
		"right":         {password, Mandatory, map[string]string{"dte": password}, nil, true},
		"wrong":         {"otra", Mandatory, map[string]string{"dte": password}, nil, false},
		"no encryption": {password, None, map[string]string{"dte": password}, nil, false},
		"not offered":   {password, Mandatory, nil, nil, false},
		// RFC 4954 §6: the box's settings are right, and the message may be given up in time.
		"right, and busy": {password, Mandatory, map[string]string{"dte": password}, reply(454, "busy"), false},
	} {
		synctest.Test(t, func(t *testing.T) { // both ends of a pipe that close TLS at once wait 5 s for each other
			config, roots := certified(t, "mx.example")
			var sent bytes.Buffer
			s := serve(t, func(s *server) {
				s.users, s.busy, s.AllowInsecureAuth = c.users, c.busy, true
				if c.security == Mandatory {
					s.TLSConfig = config
				}
			})
			o := s.sender(t, func(o *Options) {
				o.Security, o.Roots, o.User, o.Password = c.security, roots, "dte", c.password
				o.Dial = s.tap(&sent, nil)
			}).Send(t.Context(), letterTo("a@x.example"))
			if (o.Kind == Sent) != c.sent || (len(s.taken()) == 1) != c.sent {
				t.Fatalf("%s: %+v", name, o)
			}
			if bytes.Contains(sent.Bytes(), []byte("AUTH")) {
				t.Errorf("%s: in the clear: %q", name, sent.String())
			}
			if !c.sent && (o.Kind != Later || o.Setup == (c.busy != nil) || o.Doubtful || s.mails != 0 || strings.Contains(o.Err.Error(),
				password)) {
				t.Errorf("%s: %+v, %d senders named", name, o, s.mails)
			}
		})
	}
}

func TestNew(t *testing.T) {
	good := Options{Host: "mx.example", From: "dte@tienda.example"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Options){
		"Host":     func(o *Options) { o.Host = "mx example" },
		"Port":     func(o *Options) { o.Port = 65536 },
		"Security": func(o *Options) { o.Security = "tls" },
		"From":     func(o *Options) { o.From = "Tienda <dte@tienda.example>" },
		"FromName": func(o *Options) { o.FromName = "Tienda\r\nBcc: x@y.example" },
		"ReplyTo":  func(o *Options) { o.ReplyTo = "dte" },
	} {
		o := good
		change(&o)
		var f *FieldError
		if s, err := New(o); s != nil || !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestSecret(t *testing.T) {
	o := Options{Host: "mx.example", User: "dte", Password: "clave", From: "dte@tienda.example"}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q %x", o, o, o, o.Password, o.Password, o.Password),
		fmt.Sprintf("%v %+v %#v %d", s, s, s, s)} {
		if strings.Contains(text, "clave") || strings.Contains(text, fmt.Sprintf("%x", "clave")) {
			t.Error(text)
		}
	}
}
