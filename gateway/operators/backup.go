package operators

import (
	"encoding/json"
	"path/filepath"

	"github.com/valyala/fasthttp"

	"dtegate/engine/refusal"
	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
)

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
		return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation, `The body is {"dir":"/…"}: a folder of the appliance, in full`)
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
	return exchange.Show(ctx, fasthttp.StatusOK, r.backups.State())
}
