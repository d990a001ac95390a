package plugintest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
)

// misspelt are keywords of fe-nc-v3, fe-nd-v3, fe-fex-v1 and fe-cd-v1 that no validator knows: they have no effect.
var misspelt = regexp.MustCompile(`"(?:exclusiveMonimun|minimun)"\s*:[^,}]*,|"trype"\s*:[^,}]*`)

// SchemaAgrees compares a rule's schema file with MH's own, if the oracle folder lies beside the checkout: both must
// accept the same of 800 seeded mutations of MH's valid documents, or of 20,000 with DTE_SOAK=1. published is a file
// of DTE 2.0 ("v4/fe-ccf-v4.json"), or of the previous generation ("prev-generation/fe-ccf-v3.json").
func SchemaAgrees(t *testing.T, name, published, examples string) {
	shared := filepath.Join(Root(t), "..", "shared", "mh")
	if !strings.HasPrefix(published, "prev-generation/") {
		published = "2026-08-11_v2.0-current/" + published
	}
	theirs, err := os.ReadFile(filepath.Join(shared, "schemas", filepath.FromSlash(published)))
	if err != nil {
		skip.Test(t, skip.MHDocuments)
	}
	parts, _ := Parts(t, name)
	ours := bare(t, parts["schema.json"])
	mh := bare(t, misspelt.ReplaceAll(bytes.TrimPrefix(theirs, []byte("\xef\xbb\xbf")), nil))
	files, _ := filepath.Glob(filepath.Join(shared, "examples", filepath.FromSlash(examples)))
	files = slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, ".response.json") })
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	var documents []dte.Value
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := dte.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if Refused(mh, v) != nil { // MH accepted the document, but its file does not know the municipios of 2024
			v = everyMunicipio(v, "01")
		}
		if err := Refused(ours, v); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
		documents = append(documents, v)
	}
	agreeOnMutations(t, ours, mh, documents)
}

// agreeOnMutations compares two readings of a layout on documents with one place changed.
func agreeOnMutations(t *testing.T, ours, mh *schema.Filler, documents []dte.Value) {
	t.Helper()
	count := 800
	if os.Getenv("DTE_SOAK") != "" {
		count = 20_000
	}
	rng := rand.New(rand.NewPCG(7, 7))
	refused := 0
	for i := range count {
		doc := mutate(rng, documents[rng.IntN(len(documents))])
		a, b := Refused(ours, doc), Refused(mh, doc)
		if (a == nil) != (b == nil) {
			t.Errorf("mutation %d: ours says %v, MH's %v\n%s", i, a, b, doc.Append(nil))
		}
		if a != nil {
			refused++
		}
	}
	t.Logf("%d mutations, %d refused by both", count, refused)
	if refused < count/10 || refused > count*95/100 {
		t.Errorf("%d of %d mutations refused: they prove little", refused, count)
	}
}

// Refused returns why a layout without computed amounts refuses a complete document; nil if it accepts the document.
// The document is filled with its own values: a layout that accepts the document makes the same document again.
func Refused(f *schema.Filler, document dte.Value) error {
	text, faults := f.Fill(nil, document, nil, schema.FillOptions{})
	if len(faults) > 0 {
		return faults[0]
	}
	again, err := dte.Parse(text)
	if err == nil && again.Digest() != document.Digest() {
		err = fmt.Errorf("it becomes %s", text)
	}
	return err
}

// everyMunicipio gives every address of a document the same municipio.
func everyMunicipio(v dte.Value, code string) dte.Value {
	if v.Kind() != dte.KindObject {
		return v
	}
	members := slices.Clone(v.Members())
	for i := range members {
		if members[i].Name == "municipio" {
			members[i].Value = dte.Str(code)
		} else {
			members[i].Value = everyMunicipio(members[i].Value, code)
		}
	}
	return dte.Obj(members...)
}

// bare compiles a schema without what the overlay adds, and without computed amounts.
func bare(t *testing.T, file []byte) *schema.Filler {
	t.Helper()
	f, err := schema.Compile(file, nil, schema.Outputs{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mutate changes one place of a document: a value is replaced, a member removed or added, a list repeated or emptied.
func mutate(rng *rand.Rand, v dte.Value) dte.Value {
	switch {
	case v.Kind() == dte.KindObject && v.Len() > 0 && rng.IntN(8) > 0:
		members := slices.Clone(v.Members())
		i := rng.IntN(len(members))
		switch rng.IntN(14) {
		case 0:
			members = slices.Delete(members, i, i+1)
		case 1:
			members = append(members, dte.Member{Name: "extra", Value: dte.Int(1)})
		default:
			members[i].Value = mutate(rng, members[i].Value)
		}
		return dte.Obj(members...)
	case v.Kind() == dte.KindArray && v.Len() > 0 && rng.IntN(8) > 0:
		var items []dte.Value
		for i := range v.Len() {
			items = append(items, v.Index(i))
		}
		i := rng.IntN(len(items))
		switch rng.IntN(6) {
		case 0:
			return dte.Arr()
		case 1:
			items = append(items, items[i])
		default:
			items[i] = mutate(rng, items[i])
		}
		return dte.Arr(items...)
	}
	return leaf(rng, v)
}

// leaf is another value near the limits that the schemas set.
func leaf(rng *rand.Rand, v dte.Value) dte.Value {
	if v.Kind() == dte.KindString && rng.IntN(2) == 0 {
		s := v.Text()
		switch rng.IntN(4) {
		case 0:
			return dte.Str(s + "0")
		case 1:
			return dte.Str(strings.ToLower(s))
		case 2:
			return dte.Str(s[:len(s)/2])
		}
		return dte.Str(strings.Repeat("ñ", []int{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 14, 15, 20, 25, 26, 30, 31, 36, 37, 50, 51, 100, 101, 150, 151, 200, 201, 250, 251, 300, 500, 501, 1500, 1501, 3000, 3001}[rng.IntN(36)]))
	}
	numbers := []dte.Value{dte.Int(0), dte.Int(1), dte.Int(2), dte.Int(3), dte.Int(-1), dte.Int(99), dte.Int(100), dte.Int(101), dte.Int(2000), dte.Int(2001),
		dte.Num(1), dte.Num(1_000_000), dte.Num(500_000), dte.Num(-1_000_000), dte.Int(90_000_000_000)}
	others := []dte.Value{dte.Null(), dte.Bool(true), dte.Str(""), dte.Str("x"), dte.Str("2026-02-30"), dte.Str("2026-02-28"), dte.Obj(), dte.Arr(), dte.Arr(dte.Str("20")), dte.Arr(dte.Str("20"), dte.Str("20"))}
	if rng.IntN(2) == 0 {
		return numbers[rng.IntN(len(numbers))]
	}
	return others[rng.IntN(len(others))]
}
