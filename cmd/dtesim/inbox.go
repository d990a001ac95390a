package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	netmail "net/mail"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"dtegate/cmd/dtesim/simulator"
)

const (
	keptLetters = 500      // beyond this number the oldest are dropped
	maxLetter   = 32 << 20 // bytes
	maxChaos    = 1 << 16  // bytes
)

// inbox is the mail server of a demonstration. It accepts every message and keeps the last messages in memory, where
// the management address shows them. It sends no mail.
type inbox struct {
	log *slog.Logger

	mu      sync.Mutex // guards what follows
	chaos   string     // "", drop or one of hostilities
	letters []letter
	counted int // letters received so far
}

// letter is a message: the members that the list shows, and the bytes.
type letter struct {
	N         int      `json:"n"`
	From      string   `json:"from"` // of the envelope, like To
	To        []string `json:"to"`
	Subject   string   `json:"subject"`
	MessageID string   `json:"messageId"` // without brackets
	Date      string   `json:"date"`      // the message's own Date header
	Size      int      `json:"size"`      // in bytes
	raw       []byte
}

// drop is the hostility that hangs up in the middle of a message.
const drop = "drop"

// hostilities are the hostilities besides drop: the answer to each receiver.
var hostilities = map[string]*smtp.SMTPError{
	"refuse": {Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user here"},
	"defer":  {Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again later"},
}

// serveWithInbox runs the authority and the inbox until ctx ends. The inbox listens on DTESIM_SMTP_ADDR. The management
// address shows the inbox's messages and hostility; the handler management gets all other requests.
func serveWithInbox(ctx context.Context, s *simulator.Simulator, management http.Handler, protocol, manage net.Listener,
	log *slog.Logger) error {
	l, err := net.Listen("tcp", cmp.Or(os.Getenv("DTESIM_SMTP_ADDR"), "127.0.0.1:8025"))
	if err != nil {
		return errors.Join(fmt.Errorf("listening for mail (DTESIM_SMTP_ADDR): %w", err), protocol.Close(),
			manage.Close())
	}
	log.Info("inbox, memory only", "smtp", l.Addr())
	b := &inbox{log: log}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	mail := b.server()
	web := &http.Server{Handler: b.manage(management), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 3)
	go func() { failed <- mail.Serve(l) }()
	go func() { failed <- web.Serve(manage) }()
	go func() { failed <- s.Serve(ctx, protocol, newNowhere()) }() // its management is served above
	err = <-failed                                                 // nil: ctx ended
	stop()
	_, _, _ = mail.Close(), l.Close(), web.Close() // the listener too: mail may not have begun to serve
	return errors.Join(err, ignoreClosed(<-failed), ignoreClosed(<-failed))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// nowhere is a listener that never accepts a connection.
type nowhere struct {
	closed chan struct{}
	once   *sync.Once
}

func newNowhere() nowhere { return nowhere{make(chan struct{}), new(sync.Once)} }

func (n nowhere) Accept() (net.Conn, error) { <-n.closed; return nil, net.ErrClosed }
func (n nowhere) Close() error              { n.once.Do(func() { close(n.closed) }); return nil }
func (n nowhere) Addr() net.Addr            { return &net.UnixAddr{Name: "nowhere", Net: "unix"} }

func (b *inbox) server() *smtp.Server {
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{inbox: b, conn: c},
			nil
	}))
	s.Domain, s.MaxMessageBytes, s.MaxRecipients = "dtesim", maxLetter, 100
	s.ReadTimeout, s.WriteTimeout = time.Minute, time.Minute
	s.ErrorLog = slog.NewLogLogger(b.log.Handler(), slog.LevelDebug)
	return s
}

// session is one conversation; go-smtp calls it from one goroutine.
type session struct {
	inbox *inbox
	conn  *smtp.Conn
	from  string
	to    []string
}

func (x *session) Reset()        { x.from, x.to = "", nil }
func (x *session) Logout() error { return nil }

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	x.from = from
	return nil
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := hostilities[x.inbox.hostility()]; err != nil {
		return err
	}
	x.to = append(x.to, to)
	return nil
}

func (x *session) Data(r io.Reader) error {
	if x.inbox.hostility() == drop {
		_, _ = r.Read(make([]byte, 100))
		return x.conn.Conn().Close()
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	x.inbox.keep(x.from, x.to, raw)
	return nil
}

func (b *inbox) hostility() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.chaos
}

func (b *inbox) keep(from string, to []string, raw []byte) {
	n := letter{From: from, To: to, Size: len(raw), raw: raw}
	if m, err := netmail.ReadMessage(bytes.NewReader(raw)); err == nil {
		n.Subject = m.Header.Get("Subject")
		if decoded, err := new(mime.WordDecoder).DecodeHeader(n.Subject); err == nil {
			n.Subject = decoded
		}
		n.MessageID = strings.Trim(m.Header.Get("Message-Id"), "<> ")
		n.Date = m.Header.Get("Date")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counted++
	n.N = b.counted
	b.letters = append(b.letters, n)
	if len(b.letters) > keptLetters {
		b.letters = b.letters[1:]
	}
	b.log.Debug("mail", "to", to, "subject", n.Subject, "size", n.Size)
}

// manage adds the inbox to the authority's management. GET /mail lists the messages, the oldest first; GET /mail/{n}
// returns one. The member "mail" of /chaos sets the inbox's hostility. POST /reset empties and calms the inbox too.
func (b *inbox) manage(authority http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", authority)
	mux.HandleFunc("GET /mail", b.list)
	mux.HandleFunc("GET /mail/{n}", b.get)
	mux.HandleFunc("/chaos", func(w http.ResponseWriter, r *http.Request) { b.chaosOf(w, r, authority) })
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.letters, b.chaos = nil, ""
		b.mu.Unlock()
		authority.ServeHTTP(w, r)
	})
	return mux
}

func (b *inbox) list(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	letters := append([]letter{}, b.letters...)
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(letters)
}

func (b *inbox) get(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.PathValue("n"))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.letters {
		if l.N == n {
			w.Header().Set("Content-Type", "message/rfc822")
			_, _ = w.Write(l.raw)
			return
		}
	}
	http.Error(w, "no such message", http.StatusNotFound)
}

// chaosOf shows and changes the hostilities: the inbox's is the member "mail", the other members are the authority's.
// Either all members apply or none; therefore the authority is asked first.
func (b *inbox) chaosOf(w http.ResponseWriter, r *http.Request, authority http.Handler) {
	next := b.hostility()
	var members map[string]json.RawMessage
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxChaos))
	if err == nil && json.Unmarshal(body, &members) == nil && members["mail"] != nil {
		if err := json.Unmarshal(members["mail"], &next); err != nil || hostilities[next] == nil && next != drop &&
			next != "" {
			http.Error(w, `{"error":"mail is none of \"\", refuse, defer, drop"}`, http.StatusBadRequest)
			return
		}
		delete(members, "mail")
		body, _ = json.Marshal(members) // cannot fail: it was just decoded
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var a answer
	authority.ServeHTTP(&a, r)
	clear(members)
	if a.status == http.StatusOK && json.Unmarshal(a.body.Bytes(), &members) == nil {
		b.mu.Lock()
		b.chaos = next
		b.mu.Unlock()
		members["mail"], _ = json.Marshal(next)
		a.body.Reset()
		_ = json.NewEncoder(&a.body).Encode(members)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = a.body.WriteTo(w)
}

// answer records a handler's answer.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = make(http.Header)
	}
	return a.header
}

func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
