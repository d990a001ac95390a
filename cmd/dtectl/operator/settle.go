package operator

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"dtegate/cmd/screen"
)

// SettleDeliveries has the appliance do something with what was given up of documents; archive reaches what it has archived too.
func SettleDeliveries(ctx context.Context, f Flags, top *Options, do string, codes []string, archive bool) error {
	g, err := f.Open(top)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"codes": codes, "archive": archive})
	if err != nil {
		return err
	}
	var done struct {
		Retried   int `json:"retried"`
		Forgotten int `json:"forgotten"`
	}
	if err := g.Ask(ctx, http.MethodPost, "/admin/delivery/"+do, nil, body, &done); err != nil {
		return err
	}
	switch {
	case done.Retried+done.Forgotten == 0:
		return errors.New("nothing was given up of these documents: nothing was done")
	case do == "retry":
		screen.Printf("%d set due again\n", done.Retried)
	default:
		screen.Printf("%d forgotten\n", done.Forgotten)
	}
	return nil
}
