package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestNilError_LeftOut: neither the log nor the page says error=<nil>.
func TestNilError_LeftOut(t *testing.T) {
	var out bytes.Buffer
	var none error
	r := new(recent)
	log := slog.New(r.over(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutNilError})))
	log.Warn("slow", "error", none, "took", 3)
	log.Log(context.Background(), slog.LevelError, "gone", "error", errors.New("away"))
	page := ""
	for _, x := range r.troubles() {
		page += x.Text + "\n"
	}
	for _, text := range []string{out.String(), page} {
		if strings.Contains(text, "nil") || !strings.Contains(text, "error=away") || !strings.Contains(text, "took=3") {
			t.Error(text)
		}
	}
}
