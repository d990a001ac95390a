package engine_test

import (
	"errors"
	"testing"
	"time"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage"
)

// TestClosed: where the store fails, every verb of the engine fails: none is done, and none finds that there is nothing.
func TestClosed(t *testing.T) {
	w := enginetest.NewWorld(t)
	original := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	code, c, day := enginetest.CodeOf(original), enginetest.TestCaller(1), dte.Date(w.Now())
	reader := documents.NewMonthReader(w.Store)
	w.Close()
	e, ctx, before := w.Engine, t.Context(), w.Now().Add(time.Hour)
	register, operator := e.Documents(), recalling(original, 2, "")
	for name, err := range map[string]error{
		"issue":      failed(e.Issue(ctx, enginetest.Sale("a", 100))),
		"issue anew": failed(e.Issue(ctx, enginetest.Sale("", 100))),
		"repeat":     failed(e.Repeated(ctx, enginetest.Sale("a", 100))),
		"note":       failed(e.Issue(ctx, enginetest.NoteOn("05", "n", original, enginetest.Item(1, "1", "1")))),
		"validate": failed(e.Validate(ctx, enginetest.NoteOn("05", "n", original, enginetest.Item(1, "1",
			"1")))),
		"correct":    failed(e.Correct(ctx, code, enginetest.Sale("a", 100))),
		"invalidate": failed(e.Invalidate(ctx, enginetest.Invalidation(original, 2, ""))),
		"appraise":   failed(e.Appraise(ctx, operator)),
		"recall":     failed(e.Recall(ctx, operator, false)),
		"resume":     e.ResumeInvalidations(ctx, before),
		"recover":    e.Recover(ctx, before),
		"document":   failed(register.Document(ctx, code, c)),
		"settled":    failed(register.Settled(ctx, code)),
		"infos":      failed(register.Infos(ctx, []dte.Code{code}, c)),
		"list":       failed(register.List(ctx, documents.Filter{From: day, To: day, Limit: 1}, c)),
		"search": failed(register.List(ctx, documents.Filter{From: day, To: day, Limit: 1, ControlNumber: "x"},
			c)),
		"by key":  failed(register.List(ctx, documents.Filter{From: day, To: day, Limit: 1, Key: "v"}, c)),
		"today":   failed(register.Today(ctx, w.Now())),
		"changes": third(register.Changes(ctx, 0, c)),
		"closing": failed(register.Closing(ctx, day, false, 1, c, w.Now())),
		"X":       failed(register.Closing(ctx, day, true, 1, c, w.Now())),
		"Z":       third(e.CloseDay(ctx, day, c)),
		"month":   failed(reader.Page(day[:7], 0)),
		"book":    failed(reader.Document(code)),
		"usage":   failed(register.StoredBefore(w.Now())(ctx, day)),
		"owed":    failed(e.Contingency().CountBacklog()),
		"report":  failed(e.Contingency().TechnicalReport(ctx)),
		"noted":   e.Contingency().NoteTechnicalReport(ctx, "a letter"),
		"declare": e.Contingency().Declare(ctx, 2, "no power"),
	} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func failed[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }
