package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/storage"
	"dtegate/storage/storetest"
)

// ended describes how a branch with a damaged file continues. The zero value: as if nothing were damaged.
type ended struct {
	start  string // a text in the start's refusal
	log    string // a text in the start's log
	sale   string // a text in the refusal of a sale
	doctor string // a fault that dtectl doctor finds
	fsck   string // a text of dtectl fsck, "" for "no problem found"
	mend   string // the dtectl command that makes the store whole again
}

// damaged is a file that is damaged in several ways, one after the other.
type damaged struct {
	file                          string  // a pattern; the longest file that it names, of a list of tables the last
	at                            float64 // where a bit is turned, of the file's length
	turned, cut, emptied, removed ended
	empty                         bool // the file has no content: it can only be removed
	secret                        bool // nothing here can judge its content
}

func alike(e ended) damaged { return damaged{at: 0.5, turned: e, cut: e, emptied: e, removed: e} }

func (d damaged) of(file string) damaged { d.file = file; return d }

// secret is a file whose content only its counterpart can judge.
func secret(file string, wrong ended) damaged {
	return damaged{file: file, secret: true, at: 0.3, turned: wrong, cut: wrong, emptied: ended{start: file +
		" is empty"}, removed: ended{start: file + ": no such file"}}
}

// shippedRule is a bundle of the rules' folder: the store has those that are in force.
func shippedRule(file string) damaged {
	d := alike(ended{log: "shipped rule bundles are left out", doctor: file + ": not a rule bundle"}).of(file)
	d.removed = ended{}
	return d
}

const (
	behindMark = "acknowledged records are missing"
	repaired   = "recover"
)

func table(at float64, turned ended) damaged {
	wrong := func(what string) ended { return ended{start: what, doctor: what, fsck: what, mend: repaired} }
	return damaged{file: "data/*.sst", at: at, turned: turned,
		cut:     wrong(".sst is ***bytes long, and its list of tables says ***; dtectl recover rebuilds the store"),
		emptied: wrong(".sst is 0 bytes long***; dtectl recover rebuilds the store"),
		removed: wrong(".sst, which is not there; dtectl recover rebuilds the store")}
}

func pebbles(what string) ended {
	what += "***; dtectl recover rebuilds the store"
	return ended{start: what, doctor: what, fsck: what, mend: repaired}
}

var (
	unreadableRows = ".sst cannot be read; dtectl fsck names the documents, dtectl recover takes them from the other " +
		"media"
	behindOthers = ended{sale: "STORE_BEHIND", doctor: "the mark says 16", fsck: behindMark, mend: "recover"}
	unsealed     = ended{start: "signing.jwe: opening signing key"}
	noList       = pebbles("its list of tables, MANIFEST-***cannot be read")
	badAuthority = ended{start: "ca.pem"}
	badBoxKey    = ended{log: "the box's key cannot be used",
		doctor: "box.key: a box key is 32 bytes in hex; put the right file back", fsck: "box.key"}
	otherBoxKey = ended{fsck: "have another box's"}
)

// filesAtRest are all kinds of files that a branch keeps. Compiled rules are in TestCache_Damaged, objects of the
// archive in TestFsck_Archive, segments of the second copy also in TestScrub and TestRebuild_BadSegment.
var filesAtRest = []damaged{
	secret("admin.token", ended{}),
	secret("archive.secret", ended{}),
	secret("mail.password", ended{}),
	secret("authority.password", ended{log: "MH refuses the credentials"}), // in contingency
	{file: "signing.passphrase", at: 0.3, turned: unsealed, cut: unsealed,
		emptied: ended{start: "signing.passphrase is empty"},
		removed: ended{start: "signing.passphrase: no such file"}},
	{file: "signing.jwe", at: 0.5, turned: unsealed, cut: unsealed, emptied: unsealed,
		removed: ended{start: "signing.jwe: no such file"}},
	{file: "tokens.toml", at: 0.5, turned: ended{sale: "401"}, cut: ended{start: "tokens.toml: line "},
		emptied: ended{start: "tokens.toml: secret must be"}, removed: ended{start: "tokens.toml: no such file"}},
	{file: "tokens.toml", at: 0.97, turned: ended{sale: "403", doctor: `has the permission "FACTURA_CONSUMIDOR_`},
		cut:     ended{start: "tokens.toml: line "},
		emptied: ended{start: "tokens.toml: secret must be"}, removed: ended{start: "tokens.toml: no such file"}},
	{file: "dted.toml", at: 0.01, turned: ended{start: "dted.toml: ambiente: ", doctor: "dted.toml",
		fsck: "dted.toml: ambiente: "}, cut: ended{start: "dted.toml: line ", doctor: "dted.toml",
		fsck: "dted.toml: line "},
		emptied: ended{start: "dted.toml: data: is missing", doctor: "data: is missing",
			fsck: "dted.toml: data: is missing"}, removed: ended{start: "dted.toml: no such file",
			doctor: "dted.toml: no such file", fsck: "dted.toml: no such file"}},
	{file: "rules.pub", at: 0.5, turned: ended{log: "0 of the 1 pinned keys have signed",
		doctor: "not signed by enough pinned keys"}, cut: ended{start: "rules.pub: reading rules key"},
		emptied: ended{start: "rules.pub: reading rules key"}, removed: ended{start: "rules.pub: no such file"}},
	shippedRule("rules/catalogues.dterule"),
	shippedRule("rules/dte01-v2.dterule"),
	{file: "box.key", at: 0.5, turned: otherBoxKey, cut: badBoxKey, emptied: badBoxKey, removed: otherBoxKey},
	alike(badAuthority).of("tls/ca.pem"),
	{file: "tls/ca.key", at: 0.4, turned: ended{log: "ca.key", doctor: "ca.key"}, cut: ended{log: "ca.key",
		doctor: "ca.key"}, emptied: ended{log: "ca.key", doctor: "ca.key"}, removed: ended{log: "ca.key",
		doctor: "ca.key"}},
	alike(ended{}).of("tls/server.pem"), // renewed
	{file: "mark", at: 0.5, turned: ended{}, cut: ended{start: "mark is unreadable", doctor: "mark is unreadable",
		fsck: "mark is unreadable"},
		emptied: ended{start: "mark is unreadable", doctor: "mark is unreadable", fsck: "mark is unreadable"},
		removed: ended{start: "no mark is there", doctor: "no mark is there", fsck: "no mark"}},
	table(0.5, ended{log: "a stored rule may not compute", sale: "no puede leer bien su disco",
		doctor: "dte01 2.1.0 is damaged", fsck: "a part of it is altered or cannot be read", mend: repaired}),
	table(0.01, ended{start: unreadableRows, doctor: unreadableRows, fsck: "rows cannot be read", mend: repaired}),
	{file: "data/*.log", at: 0.5, turned: ended{start: "its log cannot be read; dtectl fsck",
		doctor: "its log cannot be read; dtectl fsck", fsck: "log: cannot be read", mend: repaired},
		cut: behindOthers, emptied: behindOthers, removed: behindOthers},
	alike(noList).of("data/MANIFEST-*"),
	alike(ended{}).of("data/OPTIONS-*"),
	{file: "data/marker.manifest.*", empty: true, removed: pebbles("no file says which list of tables counts")},
	{file: "data/marker.format-version.*", empty: true, removed: pebbles("marker.format-version…, which says how to " +
		"read its tables, is gone")},
	{file: "data/LOCK", empty: true},
	alike(ended{}).of("data.ballast"),
	alike(ended{}).of("copy/*.copy"),
}

// TestRot_AtRest damages each kind of file of a stopped branch. A start, dtectl doctor and dtectl fsck name the file
// and the remedy, nothing is lost, no number is used twice, and whatever can continue continues. Of damages to a file
// with the same result the suite plays the first, DTE_SOAK all.
func TestRot_AtRest(t *testing.T) {
	t.Parallel()
	whole := newAtRest(t)
	if doctor, fsck := whole.operated(t); doctor != "" || !strings.Contains(fsck, "no problem found") {
		t.Errorf("of the whole branch:\n%s%s", doctor, fsck)
	}
	for _, f := range filesAtRest {
		played := make(map[ended]bool)
		for _, way := range []struct {
			name string
			ends ended
			harm func([]byte) []byte
		}{
			{"turned", f.turned, func(b []byte) []byte { b[int(f.at*float64(len(b)))] ^= 1; return b }},
			{"cut", f.cut, func(b []byte) []byte { return b[:len(b)/2] }},
			{"emptied", f.emptied, func([]byte) []byte { return nil }},
			{"removed", f.removed, nil},
		} {
			again := played[way.ends] || f.secret && way.ends == ended{}
			if f.empty && way.harm != nil || again && os.Getenv("DTE_SOAK") == "" {
				continue
			}
			played[way.ends] = true
			t.Run(fmt.Sprintf("%s at %v %s", f.file, f.at, way.name), func(t *testing.T) {
				a := whole.copied(t)
				files, err := filepath.Glob(a.At(f.file))
				if err != nil || len(files) == 0 {
					t.Fatalf("there is no %s: %v", f.file, err)
				}
				name, err := filepath.Rel(a.Dir, slices.MaxFunc(files, longer))
				if err != nil {
					t.Fatal(err)
				}
				if way.harm == nil {
					a.Remove(name)
				} else {
					data, err := os.ReadFile(a.At(name))
					if err != nil {
						t.Fatal(err)
					}
					a.Write(name, way.harm(data))
				}
				a.judge(t, way.ends)
			})
		}
	}
}

// A repair that was interrupted before it was recorded is in the trail after the next start.
func TestRepair_StartRecords(t *testing.T) {
	t.Parallel()
	a := newAtRest(t)
	// Without an archive: the first sale would wait for the archive's answer.
	a.Set("[archive]\nendpoint = \"http://127.0.0.1:9000\"\nbucket = \"dte\"\naccess_key = \"dte\"\nsecret_file = "+
		"\"archive.secret\"\npath_style = true\n", "")
	manifests, err := filepath.Glob(a.At("data/MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	data, err := os.ReadFile(slices.Max(manifests))
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1
	if err := os.WriteFile(slices.Max(manifests), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Assemble(t.Context(), storage.Sources{Copy: a.At("copy")}, a.store(), nil); err != nil {
		t.Fatal(err)
	}
	if said, ok := a.dtectl(t, "audit"); strings.Contains(said, "store.repair") {
		t.Fatalf("%v %s", ok, said)
	}
	s, err := storage.Open(a.store())
	if err != nil {
		t.Fatal(err)
	}
	series := fmt.Sprintf("00/01/S001/P001/%d", time.Now().UTC().Add(-6*time.Hour).Year())
	if err := storetest.Settle(t.Context(), s, 0, "repaired", series); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := a.run(1); r.refused != nil || r.sale != "" || len(r.lost) > 0 {
			t.Errorf("%v %s %s", r.refused, r.sale, r.lost)
		}
		if said, _ := a.dtectl(t, "audit"); strings.Count(said, "store.repair") != 1 ||
			!strings.Contains(said, "rows of second copy") {
			t.Errorf("the trail says %s", said)
		}
	}
}

// A damaged backup is refused, or the store made from it is reported as incomplete, by the name of the file.
func TestRot_Backup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	options := storage.Options{Dir: at("data"), MarkPath: at("mark"), Now: time.Now}
	if err := storage.Create(options); err != nil {
		t.Fatal(err)
	}
	s, err := storage.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(t.Context(), at("backup"), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var files []string
	if err := filepath.WalkDir(at("backup"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, harmed := range map[string][]byte{"turned": nil, "cut": data[:len(data)/2], "emptied": {},
			"removed": nil} {
			if len(data) == 0 && name != "removed" {
				continue
			}
			if name == "turned" {
				harmed = bytes.Clone(data)
				harmed[len(data)/2] ^= 1
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if harmed != nil {
				if err := os.WriteFile(path, harmed, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			options.Dir, options.MarkPath = at("restored"), at("restored.mark")
			made, err := storage.Assemble(t.Context(), storage.Sources{Backups: []string{at("backup")}}, options, nil)
			said := fmt.Sprint(err)
			if err == nil {
				said = fmt.Sprint(made.Sources[0].Bad)
			}
			// a list names its content
			if base := filepath.Base(path); said == "[]" || base != "SHA256SUMS" && !strings.Contains(said, base) {
				t.Errorf("%s %s: %s", filepath.Base(path), name, said)
			}
			if _, there := os.Stat(options.Dir); err != nil && there == nil {
				t.Fatalf("%s %s: there is a store", filepath.Base(path), name)
			}
			if err := os.RemoveAll(options.Dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
