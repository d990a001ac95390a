// Package access controls who may do what on a running box: tills' tokens, listeners' certificates, and the record of
// their changes.
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/config"
	"dtegate/engine/audit"
	"dtegate/engine/record"
	"dtegate/gateway"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/certificate"
)

// lookEvery is how often the files of tokens and certificates are checked. SIGHUP makes Run check them at once.
const lookEvery = time.Second

// Control manages the token file and the certificates. It records each change of the tokens and of the box's own
// certificate authority in the audit trail. dtectl and the admin API both change the token file. The same code finds,
// applies and records each change, even if it was made while the appliance was stopped.
type Control struct {
	cfg     *config.Config
	log     *slog.Logger
	trail   *audit.Trail
	lan     lan
	signing time.Time                // end of MH's certificate of the signing key; zero: not known
	Publish func(gateway.TokenTable) // receives every later token table
	broken  prometheus.Gauge

	mu    sync.Mutex
	file  *config.TokenFile // the token file in force
	known map[string]string // mark of each token in the audit trail, by id
	stamp certificate.Stamp // of the token file when it was last read
}

// Open uses the tokens that Inputs read, and reads the certificates.
func Open(cfg *config.Config, in *config.Inputs, trail *audit.Trail, log *slog.Logger) (*Control, error) {
	a := &Control{cfg: cfg, log: log, trail: trail, signing: in.Key.NotAfter(), Publish: func(gateway.TokenTable) {},
		broken: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dte_token_file_broken", Help: "1 while the token file is unusable; the old tokens stay valid."})}
	last, err := trail.Last(func(act *audit.Act) bool { return len(act.State) > 0 })
	if err == nil && last != nil {
		err = json.Unmarshal(last.State, &a.known)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is known of tokens: %w", err)
	}
	a.file = in.Tokens
	a.recordChanges("the token file, while stopped")
	return a, a.openLAN()
}

// Table returns the token table with which the gateway starts.
func (a *Control) Table() gateway.TokenTable {
	t, _ := tokens(a.cfg, a.file) // Config.Inputs has checked the file
	return t
}

func (a *Control) Collect(ch chan<- prometheus.Metric) {
	record.SendAll(ch, a.broken, a.lan.expiry, a.lan.damaged)
	if !a.signing.IsZero() {
		record.SendGauge(ch, "dte_signing_certificate_expiry_timestamp_seconds",
			"When MH's certificate of the signing key ends; absent if the key came without a certificate.", a.signing)
	}
}

func (a *Control) Run(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-hup:
			a.log.Info("looking at tokens and certificates: SIGHUP")
			a.mu.Lock()
			a.stamp = certificate.Stamp{}
			a.mu.Unlock()
		}
		a.look()
		a.lookAtCertificates()
	}
}

// look reads the token file if it has changed. If the new file cannot be used, the previous tokens stay valid.
func (a *Control) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := certificate.StampOf(a.cfg.Tokens)
	if now == a.stamp {
		return
	}
	a.stamp = now
	file, err := config.LoadTokens(a.cfg.Tokens)
	if err == nil {
		err = a.put(file, "the token file")
	}
	if err != nil {
		a.broken.Set(1)
		a.log.Error("the token file cannot be used: the previous tokens stay valid", "error", err)
	}
}

// put brings a token file into force and records its changes. from is their origin, for the audit trail.
func (a *Control) put(file *config.TokenFile, from string) error {
	table, err := tokens(a.cfg, file)
	if err != nil {
		return err
	}
	a.file = file
	a.broken.Set(0)
	a.Publish(table)
	a.recordChanges(from)
	return nil
}

// recordChanges records in the audit trail how the token file in force differs from the tokens that the trail knows.
func (a *Control) recordChanges(from string) {
	now := make(map[string]string)
	for _, t := range a.file.Tokens {
		now[strconv.FormatInt(t.ID, 10)] = mark(&t)
	}
	acts := changes(a.known, now, a.file)
	if len(acts) == 0 {
		return
	}
	state, err := json.Marshal(now)
	if err != nil {
		a.log.Error("a change of tokens is not recorded", "error", err)
		return
	}
	acts[len(acts)-1].State = state // on the last act only: if a record fails, the changes are found again
	for _, act := range acts {
		act.From, act.Outcome = from, audit.Done
		a.log.Info("tokens", "act", act.What, "token", act.Target, "who", act.Who)
		if err := a.trail.Record(context.Background(), act); err != nil {
			a.log.Error("a change of tokens is not recorded", "error", err)
			return
		}
	}
	a.known = now
}

// changes returns the acts that turn the known tokens into the tokens of file. known and now map each token's id to its
// mark; before the first file, known is nil.
func changes(known, now map[string]string, file *config.TokenFile) (acts []audit.Act) {
	if known == nil {
		return []audit.Act{{Who: "the installation", What: "token.found", Detail: strconv.Itoa(len(file.Tokens)) +
			" tokens"}}
	}
	for _, t := range file.Tokens {
		id := strconv.FormatInt(t.ID, 10)
		before, there := known[id]
		all, hash, _ := strings.Cut(now[id], "/")
		allBefore, hashBefore, _ := strings.Cut(before, "/")
		if there && allBefore == all {
			continue
		}
		act := audit.Act{What: "token.changed", Who: "somebody", Target: id, Detail: t.Name}
		switch {
		case !t.Active():
			act.What, act.Who = "token.revoke", cmp.Or(t.RevokedBy, act.Who)
		case !there:
			act.What, act.Who = "token.new", cmp.Or(t.MadeBy, act.Who)
		case !t.Rotated.IsZero() && hashBefore != hash:
			act.What, act.Who = "token.rotate", cmp.Or(t.RotatedBy, act.Who)
		}
		acts = append(acts, act)
	}
	for id := range known {
		if _, there := now[id]; !there {
			acts = append(acts, audit.Act{What: "token.removed", Who: "somebody", Target: id})
		}
	}
	slices.SortStableFunc(acts, func(a, b audit.Act) int { return cmp.Compare(len(a.Target), len(b.Target)) })
	return acts
}

// mark returns a digest of a token's values, and one of its hash; neither reveals the hash. 1.0 wrote only the first.
func mark(t *config.Token) string {
	all := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %v %v", t.Hash, t.PreviousHash, t.Point, t.Permissions, t.Active()))
	hash := sha256.Sum256([]byte(t.Hash))
	return hex.EncodeToString(all[:8]) + "/" + hex.EncodeToString(hash[:8])
}

// edit changes the file under its lock, brings it into force and records the change. First it records others' changes
// of the file, which the trail would otherwise ascribe to this caller.
func (a *Control) edit(by adminapi.By, what, target string, change func(*config.TokenFile) (*config.Token, string,
	error)) (any, error) {
	a.look()
	a.mu.Lock()
	defer a.mu.Unlock()
	var file *config.TokenFile
	var made struct {
		config.Token
		Secret string `json:"token,omitempty"` // shown only this once
	}
	err := config.EditTokens(a.cfg.Tokens, func(f *config.TokenFile) error {
		t, s, err := change(f)
		if err != nil {
			return fault(err)
		}
		file, made.Token, made.Secret = f, *t, s
		return nil
	})
	if err == nil {
		a.stamp = certificate.StampOf(a.cfg.Tokens)
		err = a.put(file, by.From)
	}
	if err != nil {
		a.trail.Note(a.log, audit.Act{Who: by.Who, From: by.From, What: what, Target: target, Outcome: audit.Refused,
			Error: err.Error()})
	}
	return made, err
}

// Tokens implements adminapi.Keeper.
func (a *Control) Tokens() any {
	a.look()
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]config.Token{}, a.file.Tokens...)
}

// NewToken implements adminapi.Keeper.
func (a *Control) NewToken(by adminapi.By, name string, point int64, permissions []string) (any, error) {
	return a.edit(by, "token.new", "", func(f *config.TokenFile) (*config.Token, string, error) {
		return f.Add(a.cfg, name, point, permissions, by.Who, a.cfg.Now())
	})
}

// RotateToken implements adminapi.Keeper.
func (a *Control) RotateToken(by adminapi.By, id int64, grace time.Duration) (any, error) {
	return a.edit(by, "token.rotate", strconv.FormatInt(id, 10), func(f *config.TokenFile) (*config.Token, string,
		error) {
		return f.Rotate(id, grace, by.Who, a.cfg.Now())
	})
}

// RevokeToken implements adminapi.Keeper.
func (a *Control) RevokeToken(by adminapi.By, id int64) (any, error) {
	return a.edit(by, "token.revoke", strconv.FormatInt(id, 10), func(f *config.TokenFile) (*config.Token, string,
		error) {
		t, err := f.Revoke(id, by.Who, a.cfg.Now())
		return t, "", err
	})
}

// fault marks a change's error as the caller's fault.
func fault(err error) error {
	kind := adminapi.ErrTokenFault
	if errors.Is(err, config.ErrNoToken) {
		kind = adminapi.ErrNoToken
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// tokens returns the gateway's token table: each active token with its point of sale.
func tokens(c *config.Config, file *config.TokenFile) (gateway.TokenTable, error) {
	list, err := listed(c, file)
	if err != nil {
		return gateway.TokenTable{}, err
	}
	secret, _ := hex.DecodeString(file.Secret)
	return gateway.NewTokenTable(secret, list), nil
}

// listed returns the active tokens. A rotated token is listed twice: once with its previous hash.
func listed(c *config.Config, file *config.TokenFile) (list []gateway.Token, err error) {
	points := make(map[int64]record.Point)
	if err := file.CheckPoints(c); err != nil {
		return nil, err
	}
	for _, p := range c.PointsOfSale() {
		points[p.ID] = p
	}
	add := func(t *config.Token, hash string, until time.Time) {
		k := gateway.Token{ID: t.ID, Point: points[t.Point], Permissions: t.Permissions, Until: until}
		hex.Decode(k.Hash[:], []byte(hash)) // LoadTokens checked it
		list = append(list, k)
	}
	for _, t := range file.Tokens {
		if !t.Active() {
			continue
		}
		add(&t, t.Hash, time.Time{})
		if t.PreviousHash != "" {
			add(&t, t.PreviousHash, t.PreviousUntil)
		}
	}
	return list, nil
}
