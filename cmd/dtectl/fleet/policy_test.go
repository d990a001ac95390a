package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"dtegate/engine/archive"
	"dtegate/engine/archive/archivetest"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/plugins/plugintest"
)

// TestPolicy: the runbook's policy allows everything that a box does, and nothing of another box's or of the centre's.
func TestPolicy(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(text)
	if policy == nil {
		t.Fatal("the runbook has no policy")
	}
	store := archivetest.StartWithAccounts(t)
	endpoint := store.Endpoint(t)
	store.AddAccount(t, "centro", archivetest.Secret)
	// This server has no policies of accounts: the bucket's policy names the account.
	granted := strings.NewReplacer("BUCKET", archivetest.Bucket, "${aws:username}", "centro", `"Effect": "Allow",`,
		`"Effect": "Allow", "Principal": {"AWS": ["centro"]},`).Replace(string(policy[1]))
	root, err := minio.New(strings.TrimPrefix(endpoint, "http://"),
		&minio.Options{Creds: credentials.NewStaticV4(archivetest.Access, archivetest.Secret, "")})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.SetBucketPolicy(t.Context(), archivetest.Bucket, granted); err != nil {
		t.Fatalf("%v\n%s", err, granted)
	}
	centre := openStore(t, endpoint)
	a, err := archive.New(archive.Options{Endpoint: endpoint, Bucket: archivetest.Bucket, AccessKey: "centro",
		Secret: archivetest.Secret, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	box := a

	digest := fleetproto.Digest([]byte("x"))
	reads := []string{fleetproto.RuleKey(digest), fleetproto.SettingsKey(digest), fleetproto.DesiredKey("tiendas", 1),
		fleetproto.BoxKey("centro", 1), fleetproto.ActKey("centro", 1), fleetproto.StatusKey("centro", 1),
		fleetproto.SegmentKey("centro", 1, 1), fleetproto.PartKey("centro", 1, 1, 2)}
	creates := []string{fleetproto.ActKey("centro", 2), fleetproto.SegmentKey("centro", 1, 2),
		fleetproto.PartKey("centro", 1, 3, 4)}
	never := []string{fleetproto.StatusKey("norte", 1), fleetproto.ActKey("norte", 1), fleetproto.BoxKey("norte", 1),
		fleetproto.SegmentKey("norte", 1, 1), "otros/x"}
	for _, key := range reads {
		if _, err := box.Fetch(t.Context(), key, 10); !errors.Is(err, archive.ErrNotFound) {
			t.Errorf("%s, which is not there: %v", key, err)
		}
		must(t, centre.Overwrite(t.Context(), key, []byte("x")))
		if o, err := box.Fetch(t.Context(), key, 10); err != nil || string(o.Data) != "x" {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range creates {
		must(t, box.Create(t.Context(), key, []byte("x")))
		if err := box.Create(t.Context(), key, []byte("y")); !errors.Is(err, archive.ErrExists) {
			t.Errorf("%s, again: %v", key, err)
		}
	}
	must(t, box.Overwrite(t.Context(), fleetproto.StatusKey("centro", 1), []byte("y")))
	writes := []func(context.Context, string, []byte) error{box.Create, box.Overwrite}
	for _, key := range append(never, fleetproto.RuleKey(fleetproto.Digest([]byte("y"))),
		fleetproto.SettingsKey(digest), fleetproto.DesiredKey("tiendas", 1), fleetproto.DesiredKey("tiendas", 2),
		fleetproto.BoxKey("centro", 2)) {
		for _, write := range writes {
			if err := write(t.Context(), key, []byte("thief")); !errors.Is(err, archive.ErrSetup) {
				t.Errorf("%s is written: %v", key, err)
			}
		}
	}
	for _, key := range never {
		must(t, centre.Overwrite(t.Context(), key, []byte("x")))
		if _, err := box.Fetch(t.Context(), key, 10); !errors.Is(err, archive.ErrSetup) {
			t.Errorf("%s is read: %v", key, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
