package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/plugins/plugintest"
)

// TestScripts plays the stories of testdata/script, each on a branch of its own: the whole program, as a till sees it.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b := newBranch(t, rulesOf(t, file)...)
			s := &story{b: b}
			if strings.HasPrefix(t.Name(), "TestScripts/entrega") {
				s.inbox = b.withInbox()
				// the branch lets its token mail elsewhere
				set, err := os.ReadFile(filepath.Join(b.dir, "dted.toml"))
				if err != nil {
					t.Fatal(err)
				}
				b.write("dted.toml", append(set, "\n[access]\nmailing = \"branch\"\n"...))
			}
			b.start()
			t.Cleanup(b.stop)
			testscript.Run(t, testscript.Params{Files: []string{file}, Cmds: map[string]func(*testscript.TestScript,
				bool, []string){
				"post": s.post, "get": s.get, "status": s.status, "field": s.field, "save": s.save, "chaos": s.chaos,
				"received": s.received, "crash": s.crash,
				"prefer": s.prefer, "until": s.until,
				"mailed": s.mailed, "answers": s.answers, "fetch": s.fetch, "header": s.headerIs, "begins": s.begins,
			}})
		})
	}
}

// rulesOf returns the rules of the routes that a story names.
func rulesOf(t *testing.T, file string) (rules []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range everyRule {
		if strings.Contains(string(text), "/dte/"+path.Dir(name)) {
			rules = append(rules, name)
		}
	}
	return rules
}

// story is a script's last answer.
type story struct {
	b          *branch
	preference string // of the next post
	code       int
	answer     any
	raw        []byte
	header     http.Header // of what was fetched
	inbox      *inbox      // of stories with mail
}

// post PATH FILE [KEY]: the file is one of deploy/examples or of the script; ORIGINAL in it is $ORIGINAL.
func (s *story) post(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("post PATH FILE [KEY]")
	}
	path := filepath.Join(plugintest.Root(s.b.t), "deploy", "examples", args[1])
	if _, err := os.Stat(path); err != nil {
		path = ts.MkAbs(args[1])
	}
	body, err := os.ReadFile(path)
	ts.Check(err)
	text := os.Expand(strings.ReplaceAll(string(body), "ORIGINAL", ts.Getenv("ORIGINAL")), ts.Getenv)
	key := ""
	if len(args) > 2 {
		key = args[2]
	}
	preference := s.preference
	s.preference = ""
	code, answer, err := s.b.postPreferring(args[0], 1, key, text, preference)
	s.take(ts, code, answer, err)
}

// get PATH
func (s *story) get(ts *testscript.TestScript, _ bool, args []string) {
	code, answer, err := s.b.get(args[0], 1)
	s.take(ts, code, answer, err)
}

func (s *story) take(ts *testscript.TestScript, code int, answer []byte, err error) {
	ts.Check(err)
	s.code, s.raw, s.answer = code, answer, nil
	ts.Logf("%d %.2000s", code, answer)
	if json.Valid(answer) {
		ts.Check(json.Unmarshal(answer, &s.answer))
	}
}

// status CODE
func (s *story) status(ts *testscript.TestScript, _ bool, args []string) {
	if strconv.Itoa(s.code) != args[0] {
		ts.Fatalf("status %d, want %s: %s", s.code, args[0], s.raw)
	}
}

// at finds a member like data.dteJson.cuerpoDocumento.0.cantidad.
func (s *story) at(path string) (any, bool) {
	v := s.answer
	for _, name := range strings.Split(path, ".") {
		switch here := v.(type) {
		case map[string]any:
			next, ok := here[name]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(here) {
				return nil, false
			}
			v = here[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// field PATH [VALUE]: the answer's member, as JSON or as text. Without a value it must exist; ! field requires that it
// does not.
func (s *story) field(ts *testscript.TestScript, neg bool, args []string) {
	v, ok := s.at(args[0])
	if len(args) == 1 {
		if ok == neg {
			ts.Fatalf("%s is there: %v", args[0], ok)
		}
		return
	}
	b, err := json.Marshal(v)
	ts.Check(err)
	got := string(b)
	if text, isText := v.(string); isText {
		got = text
	}
	if (got == args[1]) == neg || !ok {
		ts.Fatalf("%s is %s, want %s: %.1500s", args[0], got, args[1], s.raw)
	}
}

// save NAME PATH keeps a member in $NAME.
func (s *story) save(ts *testscript.TestScript, _ bool, args []string) {
	v, ok := s.at(args[1])
	if !ok {
		ts.Fatalf("no %s in %s", args[1], s.raw)
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// chaos JSON
func (s *story) chaos(ts *testscript.TestScript, _ bool, args []string) {
	var c simulator.Chaos
	ts.Check(json.Unmarshal([]byte(args[0]), &c))
	ts.Check(s.b.sim.Chaos(c))
}

// received NAME N: a count that the authority has.
func (s *story) received(ts *testscript.TestScript, _ bool, args []string) {
	b, err := json.Marshal(s.b.sim.Received())
	ts.Check(err)
	var counts map[string]int
	ts.Check(json.Unmarshal(b, &counts))
	if strconv.Itoa(counts[args[0]]) != args[1] {
		ts.Fatalf("MH has %s", b)
	}
}

// prefer sets the Prefer header of the next post.
func (s *story) prefer(_ *testscript.TestScript, _ bool, args []string) { s.preference = args[0] }

// until N CURSOR follows the late results, some of which may have come already, until there are N, and keeps the cursor
// in $CURSOR.
func (s *story) until(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	cursor := args[1]
	for n := len(s.answer.(map[string]any)["data"].(map[string]any)["cambios"].([]any)); n < want; {
		code, answer, err := s.b.get("/dte/cambios?wait=30&desde="+cursor, 1)
		s.take(ts, code, answer, err)
		data := s.answer.(map[string]any)["data"].(map[string]any)
		list := data["cambios"].([]any)
		if len(list) == 0 {
			ts.Fatalf("no more than %d late results", n)
		}
		n, cursor = n+len(list), data["siguiente"].(string)
	}
	ts.Setenv("CURSOR", cursor)
}

// crash kills the appliance and starts it anew.
func (s *story) crash(*testscript.TestScript, bool, []string) {
	s.b.kill()
	s.b.start()
}
