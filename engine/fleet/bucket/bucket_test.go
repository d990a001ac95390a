package bucket

import (
	"errors"
	"testing"

	"dtegate/engine/archive"
	"dtegate/engine/archive/archivetest"
	"dtegate/engine/fleet/fleetproto"
)

// Servers of both makes answer as wire says.
func TestBucket(t *testing.T) {
	for name, endpoint := range map[string]string{"versitygw": archivetest.Start(t).Endpoint(t), "gofakes3": archivetest.StartOther(t).Endpoint()} {
		a, err := archive.New(archive.Options{Endpoint: endpoint, Bucket: archivetest.Bucket, Prefix: "cadena", AccessKey: archivetest.Access, Secret: archivetest.Secret, PathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		b, key := New(a), fleetproto.StatusKey("centro", 1)
		if _, err := b.Get(t.Context(), key, 10); !errors.Is(err, fleetproto.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Create(t.Context(), key, []byte("one")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Create(t.Context(), key, []byte("two")); !errors.Is(err, fleetproto.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Put(t.Context(), key, []byte("three")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if o, err := b.Get(t.Context(), key, 5); err != nil || string(o.Data) != "three" || o.Modified.IsZero() || o.Now.Before(o.Modified) {
			t.Errorf("%s: %+v %v", name, o, err)
		}
		if _, err := b.Get(t.Context(), key, 4); !errors.Is(err, fleetproto.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		var listed []fleetproto.Entry
		for e, err := range b.List(t.Context(), fleetproto.StatusFolder) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			listed = append(listed, e)
		}
		if len(listed) != 1 || listed[0].Key != key || listed[0].Size != 5 || listed[0].Tag == "" || listed[0].Modified.IsZero() {
			t.Errorf("%s: %+v", name, listed)
		}
	}
}
