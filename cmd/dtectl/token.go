package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"dtegate/cmd/dted/config"
)

type tokenCommand struct {
	New  tokenNewCommand  `cmd:"" help:"Make a token and print it, this once."`
	List tokenListCommand `cmd:"" help:"List the tokens."`
}

type tokenNewCommand struct {
	PointOfSale int64    `required:"" help:"Id of the point of sale that the token issues from."`
	Name        string   `required:"" help:"What people call the till."`
	Permission  []string `default:"FACTURA_CONSUMIDOR_FINAL,CREDITO_FISCAL,NOTA_CREDITO,NOTA_DEBITO,SUJETO_EXCLUIDO,COMPROBANTE_RETENCION" help:"What it may do; ANULACION invalidates."`
}

// Run prints the token alone, so that a script can take it. The appliance reads tokens at its start.
func (c *tokenNewCommand) Run(top *cli) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	token, err := newToken(cfg, c.PointOfSale, c.Name, c.Permission)
	if err != nil {
		return err
	}
	fmt.Println(token)
	return nil
}

// permissions are SPEC 2.8's, a closed list.
var permissions = []string{"FACTURA_CONSUMIDOR_FINAL", "CREDITO_FISCAL", "NOTA_CREDITO", "NOTA_DEBITO", "SUJETO_EXCLUIDO",
	"COMPROBANTE_RETENCION", "ANULACION"}

func newToken(cfg *config.Config, point int64, name string, granted []string) (string, error) {
	for _, p := range granted {
		if !strings.Contains("|"+strings.Join(permissions, "|")+"|", "|"+p+"|") {
			return "", fmt.Errorf("permission %q is not one of %s", p, strings.Join(permissions, ", "))
		}
	}
	found := false
	for _, p := range cfg.Points {
		found = found || p.ID == point
	}
	if !found {
		return "", fmt.Errorf("the configuration has no point of sale with id %d", point)
	}
	file, err := config.LoadTokens(cfg.Tokens)
	if err != nil {
		return "", err
	}
	next := int64(1)
	for _, t := range file.Tokens {
		next = max(next, t.ID+1)
	}
	token := secret()
	key, _ := hex.DecodeString(file.Secret) // LoadTokens checked it
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(token))
	file.Tokens = append(file.Tokens, config.Token{ID: next, Name: name, Hash: hex.EncodeToString(mac.Sum(nil)), Point: point, Permissions: granted})
	return token, file.Save(cfg.Tokens)
}

type tokenListCommand struct{}

// Run prints a line a token; the tokens themselves are not kept anywhere.
func (*tokenListCommand) Run(top *cli) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	file, err := config.LoadTokens(cfg.Tokens)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tPOINT OF SALE\tPERMISSIONS")
	for _, t := range file.Tokens {
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\n", t.ID, t.Name, t.Point, strings.Join(t.Permissions, " "))
	}
	return w.Flush()
}
