package adminapi

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/valyala/fasthttp"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
	"dtegate/gateway/reply"
)

// Books reads the documents of a month for the accountant: see documents.MonthReader.
type Books interface {
	Page(month string, after uint64) (*documents.MonthPage, error)
	Document(code dte.Code) (*documents.MonthDocument, error)
}

// monthPage answers GET /admin/books?month=2026-11&after=0 with a page of the month's documents, some MiB at most, and
// GET /admin/books?code=… with one document. The caller asks for page after page at its own pace, so that a month of
// any size holds neither a connection nor memory here.
func (o *Routes) monthPage(ctx *fasthttp.RequestCtx) error {
	if o.Books == nil {
		return problem.ForOperator(fasthttp.StatusNotFound, "NOT_FOUND", "No books are made here")
	}
	query := ctx.QueryArgs()
	if text := string(query.Peek("code")); text != "" {
		code, err := dte.ParseCode(text)
		if err != nil {
			return problem.WrongQuery("code", err.Error())
		}
		d, err := o.Books.Document(code)
		if errors.Is(err, documents.ErrNotFound) {
			return problem.ForOperator(fasthttp.StatusNotFound, refusal.CodeNotFound, "There is no document "+
				code.String())
		}
		if err != nil {
			return err
		}
		return reply.Show(ctx, fasthttp.StatusOK, &documents.MonthPage{Done: 1, Total: 1,
			Documents: []documents.MonthDocument{*d}})
	}
	after := uint64(0)
	if text := string(query.Peek("after")); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return problem.WrongQuery("after", "the next of the page before")
		}
		after = n
	}
	asked := string(query.Peek("month"))
	if !documents.IsMonth(asked) {
		return problem.WrongQuery("month", "a month like 2026-11")
	}
	p, err := o.Books.Page(asked, after)
	if err != nil {
		return err
	}
	return reply.Show(ctx, fasthttp.StatusOK, p)
}

// Backups copies the store while the branch issues, one copy at a time.
type Backups interface {
	// Begin begins one, into a folder that is to be made on the appliance; false while another is under way.
	Begin(dir string) bool
	// State is how far the latest is, as JSON.
	State() any
}

// backupRoutes answers /admin/backup.
type backupRoutes struct{ backups Backups } // nil: nobody makes one

// beginBackup answers POST /admin/backup {"dir"}.
func (r backupRoutes) beginBackup(ctx *fasthttp.RequestCtx) error {
	var asked struct {
		Dir string `json:"dir"`
	}
	if err := json.Unmarshal(ctx.PostBody(), &asked); err != nil || !filepath.IsAbs(asked.Dir) {
		return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation,
			`The body is {"dir":"/…"}: a folder of the appliance, in full`)
	}
	concerns(ctx, asked.Dir, "")
	if r.backups == nil || !r.backups.Begin(asked.Dir) {
		return problem.ForOperator(fasthttp.StatusConflict, "BACKUP_UNDER_WAY", "Another backup is under way")
	}
	return r.showBackup(ctx)
}

// showBackup answers GET /admin/backup.
func (r backupRoutes) showBackup(ctx *fasthttp.RequestCtx) error {
	if r.backups == nil {
		return problem.ForOperator(fasthttp.StatusNotFound, "NOT_FOUND", "No backup is made here")
	}
	return reply.Show(ctx, fasthttp.StatusOK, r.backups.State())
}
