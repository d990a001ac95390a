package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/dtectl/disk"
	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine/dte"
	"dtegate/storage"
)

type exportCommand struct {
	From      string   `required:"" placeholder:"YYYY-MM-DD" help:"First day of issue (fecEmi)."`
	To        string   `required:"" placeholder:"YYYY-MM-DD" help:"Last day of issue."`
	Format    string   `enum:"csv,json" default:"csv" help:"csv (RFC 4180) or json (an object a line)."`
	Type      []string `placeholder:"01" help:"Only these types of CAT-002; 18 is the return."`
	State     []string `placeholder:"PROCESSED" help:"Only these: PROCESSED, REJECTED, CONTINGENCIA, INVALIDATED."`
	Documents bool     `help:"With json: also the signed document, as signed (jws) and readable (document)."`
	Backup    string   `type:"existingdir" help:"Read this backup, not the appliance's store: the appliance may be running then."`
}

// Run writes the documents of a period to the standard output, in the order in which they were issued.
func (c *exportCommand) Run(ctx context.Context, top *operator.Options) error {
	if err := c.check(); err != nil {
		return err
	}
	store, err := c.open(top)
	if errors.Is(err, storage.ErrInUse) {
		return fmt.Errorf("the appliance has the store open: make a backup and export from it with --backup, or stop the appliance: %w", err)
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(screen.Data(), 1<<16)
	unsettled, err := c.export(ctx, store, out)
	if err = errors.Join(err, out.Flush(), store.Close()); err != nil {
		return err
	}
	if unsettled > 0 {
		screen.Fprintf(screen.Err, "%d documents have no outcome yet: their estado is empty\n", unsettled)
	}
	return nil
}

func (c *exportCommand) open(top *operator.Options) (*storage.Store, error) {
	if c.Backup != "" {
		return storage.OpenBackup(c.Backup, storage.Options{Logger: slog.Default(), Now: time.Now})
	}
	cfg, err := config.Load(top.Config)
	if err != nil {
		return nil, err
	}
	return storage.OpenReadOnly(cfg.Store(slog.Default()))
}

func (c *exportCommand) check() error {
	for name, day := range map[string]string{"--from": c.From, "--to": c.To} {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return fmt.Errorf("%s: %q is no day like 2026-11-30", name, day)
		}
	}
	if c.From > c.To {
		return fmt.Errorf("--from: %s is after --to", c.From)
	}
	for _, t := range c.Type {
		if !slices.Contains(disk.DocumentTypes, t) {
			return fmt.Errorf("--type: %q is not one of %s", t, strings.Join(disk.DocumentTypes, ", "))
		}
	}
	for _, s := range c.State {
		if s == "" || !slices.Contains(operator.PublicStates[:], s) {
			return fmt.Errorf("--state: %q is not PROCESSED, REJECTED, CONTINGENCIA or INVALIDATED", s)
		}
	}
	if c.Documents && c.Format != "json" {
		return errors.New("--documents: goes with --format json")
	}
	return nil
}

// exported is one document. The names and their order are a contract: new ones come at the end.
type exported struct {
	Code          string `json:"codigoGeneracion"`
	ControlNumber string `json:"numeroControl"`
	Document      string `json:"tipoDte"`
	Version       int    `json:"version"`
	Ambiente      string `json:"ambiente"`
	Date          string `json:"fecEmi"`
	State         string `json:"estado"`
	Total         string `json:"total"`
	Seal          string `json:"selloRecibido"`
	Series        string `json:"serieNumeracion"`
	Number        uint64 `json:"numero"`
	BranchID      int64  `json:"sucursal"`
	PointID       int64  `json:"puntoVenta"`
	TokenID       int64  `json:"token"`
	CreatedAt     string `json:"creado"` // RFC 3339, El Salvador's time
	Origin        string `json:"documentoRelacionado"`
	Rule          string `json:"regla"` // name and version of what computed it
	Event         string `json:"eventoContingencia"`

	Readable json.RawMessage `json:"document,omitempty"`
	JWS      string          `json:"jws,omitempty"`
}

var exportColumns = []string{"codigoGeneracion", "numeroControl", "tipoDte", "version", "ambiente", "fecEmi", "estado", "total",
	"selloRecibido", "serieNumeracion", "numero", "sucursal", "puntoVenta", "token", "creado", "documentoRelacionado", "regla", "eventoContingencia"}

func (e *exported) row() []string {
	return []string{e.Code, e.ControlNumber, e.Document, strconv.Itoa(e.Version), e.Ambiente, e.Date, e.State, e.Total, e.Seal, e.Series,
		strconv.FormatUint(e.Number, 10), strconv.FormatInt(e.BranchID, 10), strconv.FormatInt(e.PointID, 10),
		strconv.FormatInt(e.TokenID, 10), e.CreatedAt, e.Origin, e.Rule, e.Event}
}

// cells keeps a spreadsheet from taking a text for a formula: MH's seal, for one, is not ours. Of what this product writes
// nothing begins so.
func cells(row []string) []string {
	for i, text := range row {
		if text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(text)[0]) {
			if _, err := dte.ParseAmount(text); err != nil {
				row[i] = "'" + text
			}
		}
	}
	return row
}

// storedHead is what an export needs of a document's stored head (engine/record/head.go).
type storedHead struct {
	Document      string    `json:"document"`
	Version       int       `json:"version"`
	ControlNumber string    `json:"control_number"`
	Ambiente      string    `json:"ambiente"`
	Date          string    `json:"date"`
	Total         string    `json:"total"`
	Form          string    `json:"form"`
	BranchID      int64     `json:"branch_id"`
	PointID       int64     `json:"point_id"`
	TokenID       int64     `json:"token_id"`
	CreatedAt     time.Time `json:"created_at"`
	Origin        string    `json:"origin"`
	Event         string    `json:"event"`
	Rule          struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"rule"`
	Response *struct {
		Seal string `json:"selloRecibido"`
	} `json:"response"`
}

// export writes what the command chooses, and counts documents without an outcome among it.
func (c *exportCommand) export(ctx context.Context, store *storage.Store, out io.Writer) (unsettled int, err error) {
	table := csv.NewWriter(out)
	table.UseCRLF = true
	write := func(e *exported) error { return table.Write(cells(e.row())) }
	if c.Format == "json" {
		lines := json.NewEncoder(out)
		lines.SetEscapeHTML(false)
		write = func(e *exported) error { return lines.Encode(e) }
	} else if err := table.Write(exportColumns); err != nil {
		return 0, err
	}
	err = store.Records(0, func(entry storage.Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if int(entry.State) >= len(operator.PublicStates) {
			return nil // an event, a lot, a period
		}
		var h storedHead
		if err := json.Unmarshal(entry.Head, &h); err != nil {
			return fmt.Errorf("record %d: %w", entry.ID, err)
		}
		state := operator.PublicStates[entry.State]
		if h.Date < c.From || h.Date > c.To || len(c.Type) > 0 && !slices.Contains(c.Type, h.Document) ||
			len(c.State) > 0 && !slices.Contains(c.State, state) {
			return nil
		}
		if state == "" {
			unsettled++
		}
		e := &exported{Code: dte.Code(entry.Code).String(), ControlNumber: h.ControlNumber, Document: h.Document, Version: h.Version,
			Ambiente: h.Ambiente, Date: h.Date, State: state, Total: h.Total, Series: entry.Series, Number: entry.Number, BranchID: h.BranchID,
			PointID: h.PointID, TokenID: h.TokenID, CreatedAt: h.CreatedAt.In(dte.Zone).Format(time.RFC3339), Origin: h.Origin,
			Rule: h.Rule.Name + " " + h.Rule.Version, Event: h.Event}
		if h.Response != nil && state != "REJECTED" {
			e.Seal = h.Response.Seal
		}
		if c.Documents {
			if err := e.attach(store, entry.Code, h.Form); err != nil {
				return err
			}
		}
		return write(e)
	})
	table.Flush()
	return unsettled, errors.Join(err, table.Error())
}

// attach adds the signed document.
func (e *exported) attach(store *storage.Store, code storage.Code, form string) error {
	jws, err := store.Part(code, form)
	if err != nil {
		return err
	}
	e.JWS = string(jws)
	parts := strings.Split(e.JWS, ".")
	if len(parts) != 3 {
		return fmt.Errorf("document %s is not a compact JWS", e.Code)
	}
	if e.Readable, err = base64.RawURLEncoding.DecodeString(parts[1]); err != nil {
		return fmt.Errorf("document %s: %w", e.Code, err)
	}
	return nil
}
