package mail

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail/smtp"
)

// portTLS is where a server speaks TLS from the first byte (RFC 8314 §3.3).
const portTLS = 465

// maxReplies bounds what a server may say in one conversation, in bytes.
const maxReplies = 1 << 20

// conn is a connection whose other side can say only so much.
type conn struct {
	net.Conn
	replies io.Reader
	broken  bool // something written did not leave
}

func (c *conn) Read(p []byte) (int, error) { return c.replies.Read(p) }

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.broken = c.broken || err != nil
	return n, err
}

// dial connects.
func (s *Sender) dial(ctx context.Context) (*conn, error) {
	raw, err := s.options.Dial(ctx, "tcp", net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port)))
	if err != nil {
		return nil, err
	}
	return &conn{Conn: raw, replies: io.LimitReader(raw, maxReplies)}, nil
}

// greet opens the conversation and makes it as secure as it must be. The client does not close the connection.
func (s *Sender) greet(conn *conn) (*smtp.Client, error) {
	implicit := s.options.Security == Mandatory && s.options.Port == portTLS
	var speaks net.Conn = conn
	if implicit {
		speaks = tls.Client(conn, s.tls)
	}
	c, err := smtp.NewClient(speaks, s.options.Host)
	if err != nil {
		return nil, err
	}
	if err := c.Hello(s.options.Hello); err != nil {
		return nil, err
	}
	if implicit || s.options.Security == None {
		return c, nil
	}
	if offered, _ := c.Extension("STARTTLS"); !offered {
		if s.options.Security == Mandatory {
			return nil, fmt.Errorf("%w: it offers no STARTTLS", errSetup)
		}
		return c, nil
	}
	return c, c.StartTLS(s.tls)
}

// login proves who the sender is. Where the connection is not encrypted it offers only what does not show the
// password.
func (s *Sender) login(c *smtp.Client) error {
	if s.options.User == "" {
		return nil
	}
	_, offered := c.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	user, password, host := s.options.User, string(s.options.Password), s.options.Host
	for _, m := range []struct {
		name string
		auth smtp.Auth
	}{
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(user, password)},
		{"PLAIN", smtp.PlainAuth("", user, password, host, false)},
		{"LOGIN", smtp.LoginAuth(user, password, host, false)},
	} {
		if !slices.Contains(mechanisms, m.name) {
			continue
		}
		_, encrypted := c.TLSConnectionState()
		if !encrypted && m.name != "SCRAM-SHA-256" {
			break
		}
		return c.Auth(m.auth)
	}
	return fmt.Errorf("%w: it offers no way to log in that keeps the password secret", errSetup)
}
