package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
)

// Token is dtectl token. It needs no admin token: the appliance applies a change of the token file within a second.
type Token struct {
	New    tokenNew    `cmd:"" help:"Make a token and print it, this once."`
	List   tokenList   `cmd:"" help:"List the tokens."`
	Rotate tokenRotate `cmd:"" help:"Give a token another secret and print it, this once."`
	Grant  tokenGrant  `cmd:"" help:"Let a token do more: issue a type of document that a new bundle brought."`
	Revoke tokenRevoke `cmd:"" help:"End a token at once, or take permissions from it."`
	Admin  tokenAdmin  `cmd:"" help:"Make another admin token, in its file."`
}

// Selling is what a till's token may do by default.
const Selling = "FACTURA_CONSUMIDOR_FINAL,CREDITO_FISCAL,NOTA_CREDITO,NOTA_DEBITO,SUJETO_EXCLUIDO,COMPROBANTE_RETENCION"

type tokenNew struct {
	PointOfSale int64    `required:"" help:"Id of the point of sale that the token issues from."`
	Name        string   `required:"" help:"What people call the till."`
	Permission  []string `default:"${selling}" help:"ANULACION invalidates, REENVIO mails anywhere, CONSULTA sees all."`
	NewFile     bool     `help:"Begin a new token file because the old one is lost: all earlier tokens end."`
}

// Run prints only the token to standard output, for scripts; its permissions go to standard error.
func (c *tokenNew) Run(cfg *config.Config) error {
	if c.NewFile {
		if err := config.BeginTokens(cfg.Tokens, cfg.Now().In(dte.Zone)); err != nil {
			return err
		}
	}
	made, token, err := NewToken(cfg, c.PointOfSale, c.Name, c.Permission)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: put the file back from central IT's copy, or begin a new file with --new-file, and "+
			"give every till a new token", err)
	}
	if err != nil {
		return err
	}
	term.Printf("%s\n", token)
	term.Fprintf(term.Err, "token %d (%s) of point of sale %d may: %s\n", made.ID, made.Name, made.Point,
		strings.Join(made.Permissions, " "))
	not := slices.DeleteFunc(slices.Clone(config.Permissions),
		func(p string) bool { return slices.Contains(made.Permissions, p) })
	if len(not) > 0 {
		term.Fprintf(term.Err, "it may not: %s; dtectl token grant %d … lets it\n", strings.Join(not, " "), made.ID)
	}
	term.Fprintf(term.Err, "%s\n", keepToken)
	return nil
}

const keepToken = "the token is shown only this once: put it into a file that only the till's program reads (mode 600)"

type tokenRotate struct {
	ID    int64         `arg:"" help:"Of the token, as list shows it."`
	Grace time.Duration `help:"How long the old secret stays valid, at most 720h." placeholder:"24h"`
}

// Run prints only the new token to standard output.
func (c *tokenRotate) Run(cfg *config.Config) error {
	var token string
	var t *config.Token
	err := config.EditTokens(cfg.Tokens, func(f *config.TokenFile) (err error) {
		t, token, err = f.Rotate(c.ID, c.Grace, adminclient.Who(), cfg.Now())
		return err
	})
	if err != nil {
		return err
	}
	term.Printf("%s\n", token)
	old := "ends now"
	if !t.PreviousUntil.IsZero() {
		old = "stays valid until " + adminclient.Local(t.PreviousUntil)
	}
	term.Fprintf(term.Err, "token %d (%s): the old token %s; %s\n", t.ID, t.Name, old, keepToken)
	return nil
}

type tokenGrant struct {
	ID         int64    `arg:"" help:"Of the token, as list shows it."`
	Permission []string `arg:"" help:"Permissions to add: ${permissions}, or a future type's."`
}

func (c *tokenGrant) Run(cfg *config.Config) error {
	for _, p := range c.Permission {
		if !slices.Contains(config.Permissions, p) {
			term.Fprintf(term.Err, "warning: no type of this program needs %s: the permission has an effect only "+
				"where a pushed bundle needs it; the permissions of this program are %s\n", p,
				strings.Join(config.Permissions, ", "))
		}
	}
	return changeToken(cfg, func(f *config.TokenFile) (*config.Token, error) { return f.Grant(c.ID, c.Permission) })
}

type tokenRevoke struct {
	ID         int64    `arg:"" help:"Of the token, as list shows it."`
	Permission []string `arg:"" optional:"" help:"Permissions to take away; default: all, which ends the token."`
}

func (c *tokenRevoke) Run(cfg *config.Config) error {
	return changeToken(cfg, func(f *config.TokenFile) (*config.Token, error) {
		if len(c.Permission) > 0 {
			return f.Withdraw(c.ID, c.Permission)
		}
		return f.Revoke(c.ID, adminclient.Who(), cfg.Now())
	})
}

func changeToken(cfg *config.Config, change func(*config.TokenFile) (*config.Token, error)) error {
	return config.EditTokens(cfg.Tokens, func(f *config.TokenFile) error {
		t, err := change(f)
		switch {
		case err != nil:
			return err
		case !t.Active():
			term.Printf("token %d (%s) is revoked\n", t.ID, t.Name)
		default:
			term.Printf("token %d (%s) of point of sale %d may: %s\n", t.ID, t.Name, t.Point,
				strings.Join(t.Permissions, " "))
		}
		return nil
	})
}

type tokenList struct {
	All  bool `help:"Also list revoked tokens."`
	JSON bool `help:"Write one JSON array."`
}

// Run prints one line for each token, never the token itself: the file has only its hash.
func (c *tokenList) Run(cfg *config.Config) error {
	file, err := config.LoadTokens(cfg.Tokens)
	if err != nil {
		return err
	}
	listed := slices.DeleteFunc(file.Tokens, func(t config.Token) bool { return !t.Active() && !c.All })
	return term.List(c.JSON, "ID\tNAME\tPOINT OF SALE\tPERMISSIONS\tSINCE", listed, func(t config.Token) []any {
		return []any{t.ID, t.Name, t.Point, strings.Join(t.Permissions, " "), lived(&t, cfg.Now())}
	})
}

// lived describes when and by whom a token was made, rotated and revoked.
func lived(t *config.Token, now time.Time) string {
	var parts []string
	add := func(what string, at time.Time, by string) {
		if !at.IsZero() {
			parts = append(parts, strings.TrimSpace(what+adminclient.Local(at)+" "+by))
		}
	}
	add("", t.Made, t.MadeBy)
	add("rotated ", t.Rotated, t.RotatedBy)
	if t.PreviousUntil.After(now) {
		add("old token valid until ", t.PreviousUntil, "")
	}
	add("revoked ", t.Revoked, t.RevokedBy)
	return strings.Join(parts, ", ")
}

type tokenAdmin struct{}

// Run makes another admin token when the old one is lost or known to others. It writes the token only to its file.
func (*tokenAdmin) Run(cfg *config.Config) error {
	if cfg.Ops.AdminTokenFile == "" {
		return errors.New("ops.admin_token_file: is not set: name the file there first")
	}
	if err := config.WriteFile(cfg.Ops.AdminTokenFile, []byte(config.Secret()+"\n")); err != nil {
		return err
	}
	term.Printf("admin token  %s\nnext         systemctl restart dted: a running appliance accepts only the old "+
		"token\n", cfg.Ops.AdminTokenFile)
	return nil
}

// makeAdminToken makes the admin token at the installation, unless its file exists.
func makeAdminToken(cfg *config.Config) error {
	if cfg.Ops.AdminTokenFile == "" {
		return nil
	}
	if _, err := os.Stat(cfg.Ops.AdminTokenFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return config.WriteFile(cfg.Ops.AdminTokenFile, []byte(config.Secret()+"\n"))
}

// NewToken adds a till's token to the token file.
func NewToken(cfg *config.Config, point int64, name string, granted []string) (made *config.Token, token string,
	err error) {
	err = config.EditTokens(cfg.Tokens, func(f *config.TokenFile) error {
		made, token, err = f.Add(cfg, name, point, granted, adminclient.Who(), cfg.Now())
		return err
	})
	return made, token, err
}
