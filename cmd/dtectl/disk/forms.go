package disk

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"dtegate/cmd/dted/config"
	"dtegate/engine/register"
	"dtegate/storage"
)

// checkForms adds to a report the documents whose record names a form that was never signed. A store that cannot be opened
// has other problems, which are in the report already.
func checkForms(ctx context.Context, cfg *config.Config, report *storage.Report) {
	store, err := storage.OpenReadOnly(cfg.Store(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		if len(report.Problems) == 0 {
			report.Problems = append(report.Problems, storage.Problem{Where: "store", What: err.Error()})
		}
		return
	}
	err = register.CheckForms(ctx, store, func(f register.FormFault) error {
		if len(report.Problems) < storage.MaxProblems {
			report.Problems = append(report.Problems, storage.Problem{Where: "form", What: f.String()})
		}
		return nil
	})
	err = errors.Join(err, store.Close())
	switch {
	case errors.Is(err, storage.ErrCorrupt):
		what := "were not all compared: a row that they need cannot be read"
		report.Problems = append(report.Problems, storage.Problem{Where: "forms", What: what, Detail: storage.Explain(err).Error()})
	case err != nil:
		report.Problems = append(report.Problems, storage.Problem{Where: "forms", What: err.Error()})
	}
}
