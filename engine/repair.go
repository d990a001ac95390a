package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/storage"
)

// SeriesOf returns the series of a stored document, read from the document's own record; "" if the record is no document. It is
// for a store in which the name of the series cannot be read.
func SeriesOf(e storage.Entry) string {
	h := new(record.Head)
	if json.Unmarshal(e.Head, h) != nil {
		return ""
	}
	var point string
	var number uint64
	if n, err := fmt.Sscanf(h.ControlNumber, "DTE-"+h.Document+"-%8s-%d", &point, &number); n != 2 || err != nil || len(point) != 8 || len(h.Date) < 4 {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s/%s/%s", h.Ambiente, h.Document, point[:4], point[4:], h.Date[:4])
}

// ArchivedPart returns the signed form of a document that the archive holds, nil if it holds none. It does not know which of
// the document's forms that is; the store's journal has the digest of each form. Errors: the archive's.
func ArchivedPart(ctx context.Context, a *archive.Archive, slug string, e storage.Entry) ([]byte, error) {
	h := new(record.Head)
	if json.Unmarshal(e.Head, h) != nil || h.Document == "" {
		return nil, nil
	}
	data, err := a.Get(ctx, outbox.ArchivePath(slug, h, "json", dte.Code(e.Code).String()))
	if errors.Is(err, archive.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := dte.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading the archive's %s: %w", dte.Code(e.Code), err)
	}
	return []byte(v.Get("firmaElectronica").Text()), nil
}
