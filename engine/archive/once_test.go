package archive

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"dtegate/engine/archive/archivetest"
)

// makes are the servers of both makes.
func makes(t *testing.T) map[string]*Archive {
	t.Helper()
	other, err := New(Options{Endpoint: archivetest.StartOther(t).Endpoint(), Bucket: bucket, AccessKey: access,
		Secret: secret, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Archive{"versitygw": start(t).archive(t, nil), "gofakes3": other}
}

func TestCreate(t *testing.T) {
	for name, a := range makes(t) {
		const k = "fleet/v1/desired/tiendas/000000000001.jws"
		if _, err := a.Fetch(t.Context(), k, 100); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.Create(t.Context(), k, []byte("one")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, data := range []string{"one", "two"} {
			if err := a.Create(t.Context(), k, []byte(data)); !errors.Is(err, ErrExists) {
				t.Errorf("%s: %s again: %v", name, data, err)
			}
		}
		h, err := a.Fetch(t.Context(), k, 3)
		if err != nil || string(h.Data) != "one" || time.Since(h.Modified).Abs() > time.Minute ||
			time.Since(h.Now).Abs() > time.Minute {
			t.Errorf("%s: %+v %v", name, h, err)
		}
		if _, err := a.Fetch(t.Context(), k, 2); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.Create(t.Context(), "a//b", []byte("x")); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOverwrite(t *testing.T) {
	for name, a := range makes(t) {
		const k = "fleet/v1/status/centro.jws"
		for _, data := range []string{"one", "longer", "3"} {
			if err := a.Overwrite(t.Context(), k, []byte(data)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if h, err := a.Fetch(t.Context(), k, 100); err != nil || string(h.Data) != data {
				t.Errorf("%s: %s %v", name, h.Data, err)
			}
		}
		var listed []Object
		for o, err := range a.List(t.Context(), "fleet/v1/status/") {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			listed = append(listed, o)
		}
		if len(listed) != 1 || listed[0].Key != k || time.Since(listed[0].Modified).Abs() > time.Minute {
			t.Errorf("%s: %+v", name, listed)
		}
	}
}

// If many create one key at once, one succeeds, and its bytes stay.
func TestCreate_AtOnce(t *testing.T) {
	for name, a := range makes(t) {
		for round := range 10 {
			k := fmt.Sprintf("race/%d", round)
			var all sync.WaitGroup
			won := make(chan byte, 16)
			for n := range byte(16) {
				all.Go(func() {
					err := a.Create(t.Context(), k, bytes.Repeat([]byte{n}, 3000))
					if err == nil {
						won <- n
					} else if !errors.Is(err, ErrExists) {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			all.Wait()
			h, err := a.Fetch(t.Context(), k, 5000)
			if err != nil || len(won) != 1 || !bytes.Equal(h.Data, bytes.Repeat([]byte{<-won}, 3000)) {
				t.Errorf("%s: round %d: %d more won, %v", name, round, len(won), err)
			}
		}
	}
}
