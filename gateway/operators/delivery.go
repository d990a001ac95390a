package operators

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/refusal"
	"dtegate/gateway/exchange"
	"dtegate/gateway/problem"
)

// maxGivenUp is how much of what was given up one answer lists, and how many documents one request settles.
const maxGivenUp = 1000

// Deliveries is what an operator can do about mail and archive.
type Deliveries interface {
	GivenUp(limit int) ([]outbox.Failure, error)
	Retry(ctx context.Context, code dte.Code, archive bool) (int, error)
	Forget(context.Context, dte.Code) (int, error)
	CheckArchive(context.Context, *outbox.ArchiveCheck) (*outbox.ArchiveTotals, error)
}

// deliveryRoutes answers /admin/delivery and /admin/archive.
type deliveryRoutes struct {
	deliveries Deliveries
	log        *slog.Logger
	serving    context.Context // ends when the gateway takes no more requests
}

// showGivenUp answers GET /admin/delivery with what was given up.
func (r deliveryRoutes) showGivenUp(ctx *fasthttp.RequestCtx) error {
	list, err := r.deliveries.GivenUp(maxGivenUp)
	if err != nil {
		return err
	}
	return exchange.Show(ctx, fasthttp.StatusOK, map[string]any{"failures": list})
}

// retryDelivery answers POST /admin/delivery/retry {"codes":[…],"archive":false}: what was given up of the documents is
// tried again; with archive, their files are put back where the archive has lost them.
func (r deliveryRoutes) retryDelivery(ctx *fasthttp.RequestCtx) error {
	return r.settleDelivery(ctx, "retried", r.deliveries.Retry)
}

// forgetDelivery answers POST /admin/delivery/forget {"codes":[…]}: what was given up of the documents is settled.
func (r deliveryRoutes) forgetDelivery(ctx *fasthttp.RequestCtx) error {
	return r.settleDelivery(ctx, "forgotten", func(ctx context.Context, code dte.Code, _ bool) (int, error) { return r.deliveries.Forget(ctx, code) })
}

func (r deliveryRoutes) settleDelivery(ctx *fasthttp.RequestCtx, done string, settle func(context.Context, dte.Code, bool) (int, error)) error {
	var asked struct {
		Codes   []string `json:"codes"`
		Archive bool     `json:"archive"`
	}
	if err := json.Unmarshal(ctx.PostBody(), &asked); err != nil || len(asked.Codes) == 0 || len(asked.Codes) > maxGivenUp {
		return problem.ForOperator(fasthttp.StatusBadRequest, refusal.CodeValidation, `The body is {"codes":[…]} with 1 to `+strconv.Itoa(maxGivenUp)+" codes")
	}
	concerns(ctx, strings.Join(asked.Codes, " "), "")
	total := 0
	for _, text := range asked.Codes {
		code, err := dte.ParseCode(text)
		if err != nil {
			return problem.WrongQuery("codes", err.Error())
		}
		n, err := settle(context.Background(), code, asked.Archive)
		if err != nil {
			return err
		}
		total += n
	}
	ctx.SetUserValue(actIdle, total == 0)
	r.log.Info("delivery settled", "what", done, "codes", len(asked.Codes), "first", asked.Codes[0], "steps", total)
	return exchange.Show(ctx, fasthttp.StatusOK, map[string]int{done: total})
}

// checkArchive answers GET /admin/archive/check?read=1&shared=1 with a JSON object a line: {"found"}, {"progress"}, and at
// last {"checked"} or {"error"}.
func (r deliveryRoutes) checkArchive(ctx *fasthttp.RequestCtx) error {
	c := &outbox.ArchiveCheck{Read: ctx.QueryArgs().GetBool("read"), Shared: ctx.QueryArgs().GetBool("shared")}
	stream(r.serving, ctx, func(ctx context.Context, send func(streamLine) error) error {
		c.Found = func(f outbox.ArchiveFinding) error { return send(streamLine{Found: &f}) }
		c.Progress = func(done, total int64) error {
			return send(streamLine{Progress: &streamProgress{Documents: int(done), Of: int(total)}})
		}
		totals, err := r.deliveries.CheckArchive(ctx, c)
		if err != nil {
			return err
		}
		return send(streamLine{Checked: totals})
	})
	return nil
}
