package disk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine"
	"dtegate/engine/archive"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/redacted"
	"dtegate/storage"
)

// The functions of this file ask sources other than the box's media: the archive, MH and the configuration.

// archivedParts returns a function that reads documents' signed forms from the archive; nil if the archive is unusable.
func archivedParts(cfg *config.Config) func(context.Context, storage.Entry, string) ([]byte, error) {
	if cfg.Archive == nil {
		return nil
	}
	bucket, err := cfg.Archive.Open()
	if err != nil {
		term.Printf("the archive is not asked: %v\n", err)
		return nil
	}
	return partsOf(func(ctx context.Context, e storage.Entry) ([]byte, error) {
		return engine.ArchivedPart(ctx, bucket, cfg.Issuer.Slug, e)
	})
}

// partsOf returns a function for storage.Sources.Part. The function calls archived, which reads a document from the
// archive, once for each document, and never after three failures in a row. It returns each failure's error; of objects
// in cold storage, which are no failure, only the first.
func partsOf(archived func(context.Context, storage.Entry) ([]byte, error)) func(context.Context, storage.Entry,
	string) ([]byte, error) {
	var last storage.Code
	var held []byte
	cold, failed := false, 0
	return func(ctx context.Context, e storage.Entry, _ string) (_ []byte, err error) {
		if e.Code == last || failed == 3 {
			return held, nil
		}
		last = e.Code
		switch held, err = archived(ctx, e); {
		case err == nil:
			failed = 0
		case !errors.Is(err, archive.ErrCold):
			failed++
		case cold:
			err = nil
		default:
			cold = true
		}
		return held, err
	}
}

// askedOfAuthority is the largest number of documents for which recover asks MH.
const askedOfAuthority = 100

// askAuthority asks MH for the documents with a known codigoGeneracion, and stops if MH does not answer. The answers
// repair nothing; they show which documents MH has accepted.
func askAuthority(ctx context.Context, cfg *config.Config, list []storage.Affected) {
	password, err := config.ReadSecret("authority.password_file", cfg.Authority.PasswordFile)
	if err != nil {
		term.Printf("MH was not asked: %v\n", err)
		return
	}
	way := cfg.Authority.Link()
	defer way.Close()
	client := authority.New(authority.Options{BaseURL: cfg.Authority.URL, NIT: cfg.Issuer.NIT,
		Password: redacted.Text(password), Ambiente: cfg.Ambiente, UserAgent: "dtectl recover", Transport: way,
		Now: cfg.Now, Rehearsal: cfg.Authority.Rehearsal})
	asked := 0
	for _, l := range list {
		series := strings.Split(l.Series, "/")
		if l.Code == (storage.Code{}) || len(series) != 5 {
			continue
		}
		if asked++; asked > askedOfAuthority {
			term.Printf("MH was asked for %d documents only: that is the limit\n", askedOfAuthority)
			break
		}
		o := client.Query(ctx, series[1], dte.Code(l.Code).String())
		if o.Kind == authority.Unknown {
			term.Printf("MH does not answer: %v\n", o.Err)
			break
		}
		if o.Kind == authority.Accepted {
			term.Printf("MH holds %s  %d  %s, seal %s\n", l.Series, l.From, dte.Code(l.Code), o.Response.SelloRecibido)
		}
	}
}

// possibleSeries returns a function that lists the series that the branch can have begun since a time.
func possibleSeries(cfg *config.Config) storage.Possible {
	return func(since time.Time) (list []string) {
		now := cfg.Now()
		if since.IsZero() {
			since = now
		}
		last := dte.Year(now)
		if since.Sub(now) > 24*time.Hour { // the box's clock is behind: its year may be too low
			last = dte.Year(since) + 1
		}
		for year := dte.Year(since); year <= last; year++ {
			for _, p := range cfg.Points {
				for _, document := range cfg.Types.Issue {
					list = append(list, fmt.Sprintf("%s/%s/%s/%s/%d", cfg.Ambiente, document, p.Establishment,
						p.PointOfSale, year))
				}
			}
		}
		return list
	}
}
