package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dted/config"
	"dtegate/engine/archive/archivetest"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// hostile is a text that a customer, an operator or MH may have written: it clears the screen, reverses the direction
// of reading, colours by a C1 control, overwrites its line and forges another.
const hostile = "=1\x1b[2J\u202e\u009b31m\r\nok\tforged\u2028\x00\x7f\u200b"

// Everything that dtectl writes for people goes through the package screen.
func TestScreen_Source(t *testing.T) {
	around := regexp.MustCompile(
		`fmt\.F?[Pp]rint|os\.Std(out|err)|log\.(Print|Fatal|Panic)|\bprint(ln)?\("|syscall\.(Stdout|Stderr|Write)|/dev/(tty|std)`)
	allowed := map[string]bool{"demo.go": true, "main.go": false}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			if line = strings.TrimSpace(line); allowed[file] &&
				line == "cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr" {
				continue // the log of a child
			}
			if around.MatchString(line) {
				t.Errorf("%s:%d goes around screen: %s", file, i+1, line)
			}
		}
	}
}

// answers are an appliance's answers, by path; HOSTILE stands for the hostile text.
var answers = map[string]string{
	"/admin/audit": `{"acts":[{"number":1,"at":"2026-11-01T00:00:00Z","who":HOSTILE,"from":HOSTILE,"what":HOSTILE,"target":HOSTILE,"detail":HOSTILE,"outcome":HOSTILE,"error":HOSTILE,"authenticity":HOSTILE}]}`,
	"/admin/rules": `{"day":HOSTILE,"engine":HOSTILE,"notes":[HOSTILE],"rules":[
		{"name":HOSTILE,"version":HOSTILE,"digest":HOSTILE,"state":"live","from":HOSTILE,"until":HOSTILE,"way":HOSTILE,"who":HOSTILE,"expires":HOSTILE,"trouble":{"why":HOSTILE,"text":HOSTILE}},
		{"name":HOSTILE,"version":HOSTILE,"state":"coming","off":{"way":HOSTILE,"reason":HOSTILE}}],"return":{"to":{"name":HOSTILE,"version":HOSTILE},"reason":HOSTILE},
		"rule":{"name":HOSTILE,"version":HOSTILE},"state":HOSTILE,"steps":[{"name":HOSTILE,"detail":HOSTILE},{"name":HOSTILE,"error":HOSTILE}]}`,
	"/admin/rules/shadow":       `{"rule":{"name":HOSTILE,"version":HOSTILE},"results":{HOSTILE:1},"differing":[DIFFERS],"steps":[{"name":HOSTILE,"error":HOSTILE}],"refused":HOSTILE}`,
	"/admin/rules/backtest":     `{"differs":DIFFERS}{"totals":{"documents":1,"results":{HOSTILE:1},"fields":{HOSTILE:{"documents":1,"old":HOSTILE,"new":HOSTILE}}}}`,
	"/admin/rules/replay":       `{"code":HOSTILE,"rule":{"name":HOSTILE,"version":HOSTILE,"digest":HOSTILE},"result":"identical","replayed":{HOSTILE:1}}`,
	"/admin/rules/documents":    `{"documents":[{"codigoGeneracion":HOSTILE,"numeroControl":HOSTILE,"tipoDte":HOSTILE,"fecEmi":HOSTILE,"estado":HOSTILE,"total":HOSTILE,"rule":{"name":HOSTILE,"version":HOSTILE,"digest":HOSTILE}}]}`,
	"/admin/invalidation/check": `{"codigoGeneracion":HOSTILE,"numeroControl":HOSTILE,"verdict":"POSSIBLE","until":HOSTILE}`,
	"/admin/invalidation":       `{"codigoGeneracion":HOSTILE,"numeroControl":HOSTILE,"verdict":"REFUSED","invalidacion":{"response":{"codigoMsg":HOSTILE,"descripcionMsg":HOSTILE,"observaciones":[HOSTILE]}}}`,
	"/status":                   `{"owed":{"contingency":{"motive":HOSTILE},"refused":HOSTILE,"waiting":{"settle":0}}}`,
	"/admin/contingency":        `{"owed":{"contingency":{"motive":HOSTILE},"refused":HOSTILE}}`,
	"/admin/delivery":           `{"failures":[{"codigoGeneracion":HOSTILE,"step":HOSTILE,"to":HOSTILE,"error":HOSTILE}]}`,
	"/admin/contingency/report": `{"Issuer":{"nombre":HOSTILE,"nit":HOSTILE,"correo":HOSTILE},"issuer":{"nombre":HOSTILE},"periods":[{"cause":5,"motive":HOSTILE}],"documents":[{"document":HOSTILE,"first":HOSTILE}],"noted":{"reference":HOSTILE},"who":{"name":HOSTILE}}`,
	"/admin/tokens":             `{"tokens":[{"id":1,"name":HOSTILE,"point_of_sale":1,"permissions":[HOSTILE],"pointOfSale":1}]}`,
	"/admin/backup":             `{"error":HOSTILE}`,
}

func appliance(b *barebox.Box) {
	quoted, err := json.Marshal(hostile)
	b.Must(err)
	differs := `{"code":HOSTILE,"control":HOSTILE,"document":HOSTILE,"date":HOSTILE,"result":HOSTILE,"error":HOSTILE,"differences":[{"path":HOSTILE,"old":HOSTILE,"new":HOSTILE}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.URL.Path]
		if !known { // any other path: a refusal in hostile words
			w.WriteHeader(http.StatusConflict)
			text = `{"message":HOSTILE,"errors":[{"path":HOSTILE,"message":HOSTILE}]}`
		}
		_, _ = w.Write([]byte(strings.ReplaceAll(strings.ReplaceAll(text, "DIFFERS", differs), "HOSTILE",
			string(quoted))))
	}))
	b.T.Cleanup(server.Close)
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err)
	b.Must(config.WriteFile(b.Options.Config, []byte(strings.Replace(string(text), `ops = {listen = "127.0.0.1:0"`,
		`ops = {listen = "`+server.Listener.Addr().String()+`"`, 1))))
}

// dtectl runs a verb as main does, and returns what it writes to both outputs.
func dtectl(b *barebox.Box, args ...string) (said string, err error) {
	b.T.Helper()
	saved := os.Stderr
	defer func() { os.Stderr = saved }()
	said, err = barebox.Output(b.T, func() error {
		os.Stderr = os.Stdout
		var c cli
		k := parser(context.Background(), &c)
		command, err := k.Parse(append([]string{"--config", b.Options.Config}, args...))
		if err != nil {
			return err
		}
		if err = command.Run(&c.Options); err != nil {
			k.Errorf("%s", shownError{err})
		}
		return err
	})
	return said, err
}

// chain is the settings of a chain in which one box writes hostile words.
func chain(b *barebox.Box) string {
	store := archivetest.StartOther(b.T)
	b.Must(config.WriteFile(b.At("store.secret"), []byte("x\n")))
	b.Must(config.WriteFile(b.At("fleet.toml"), []byte(`chain = "cadena"
ambiente = "00"
store = {endpoint = "`+store.Endpoint()+`", bucket = "`+archivetest.Bucket+`", access_key = "x", secret_file = "store.secret", path_style = true}
director = {public = "director.pub", key = "director.jwe", passphrase_file = "director.passphrase"}
`)))
	centre, err := config.LoadCentre(b.At("fleet.toml"))
	b.Must(err)
	opened, err := centre.OpenStore()
	b.Must(err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	b.Must(err)
	box := fleetproto.Signer{ID: "box", Private: private}
	chain := fleetproto.Chain{Name: "cadena", Ambiente: "00"}
	status, err := chain.Seal(&fleetproto.Status{Branch: "centro", Group: "tiendas",
		Key: fleetproto.EncodeKey(public), Sequence: 1, At: time.Now(), Program: hostile, Name: hostile,
		NotReady: []string{hostile}, Desired: fleetproto.Reached{Trouble: hostile},
		Rollout: &fleetproto.Progress{Name: "r1", Stage: fleetproto.StageRefused, Reason: hostile},
		Copy:    &fleetproto.Shipped{Why: hostile}}, box)
	b.Must(err)
	act, err := chain.Seal(&fleetproto.Act{Branch: "centro", Number: 1, At: time.Now(),
		What: fleetproto.ActRefused, Rule: hostile, Rollout: hostile, Reason: hostile}, box)
	b.Must(err)
	b.Must(opened.Overwrite(b.T.Context(), fleetproto.StatusKey("centro", 0), status))
	b.Must(opened.Create(b.T.Context(), fleetproto.ActKey("centro", 1), act))
	return b.At("fleet.toml")
}

// TestHostile: no verb lets a text from outside reach the terminal except as visible characters within its line. Every
// verb is here, or the list has the reason why it prints nothing from outside.
func TestHostile(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	appliance(b)
	code := dte.Code{15: 1, 6: 0x40, 8: 0x80}
	head, err := json.Marshal(map[string]any{"document": "01", "version": 2, "control_number": hostile,
		"ambiente": "00", "date": "2026-11-01", "total": "16.40", "form": "normal",
		"rule":     map[string]string{"name": hostile, "version": hostile},
		"response": map[string]string{"selloRecibido": hostile}, "mail": hostile, "cause": hostile})
	b.Must(err)
	s := b.Store()
	_, err = s.Append(t.Context(), storage.Keys{Series: "00/01/M001/P001/2026"}, storage.Draft{Code: storage.Code(code),
		State: 2, Head: head, Parts: []storage.Part{{Name: "normal", Data: []byte("eyJ9.eyJ0b3RhbCI6MTYuNDB9.c2ln" +
			hostile)}}})
	b.Must(err)
	_, err = s.Append(t.Context(), storage.Keys{Series: "00/reglas"}, storage.Draft{Code: storage.Code{9}, State: 64,
		Head: head, Due: &storage.Due{Queue: "rules", At: time.Unix(1, 0)}})
	b.Must(err)
	b.Must(audit.New(s, "00", nil, time.Now).Record(t.Context(), audit.Act{Who: hostile, From: hostile, What: hostile,
		Target: hostile, Detail: hostile, Error: hostile, Outcome: hostile}))
	b.Must(s.Close())
	key, err := os.ReadFile(b.At("rules.key"))
	b.Must(err)
	private, err := bundle.ParsePrivate(key)
	b.Must(err)
	data, err := bundle.Write(map[string][]byte{"catalogues.json": []byte("{}")}, bundle.Manifest{Name: "catalogues",
		Version: "1.0.0", Kind: "catalogue", Document: "catalogues", Schema: 2, ABI: 1,
		Validity: map[string]bundle.Window{"00": {From: "2026-11-01"}}}, bundle.Signer{ID: "central-it",
		Private: private})
	b.Must(err)
	b.Must(config.WriteFile(b.At("x.dterule"), data), os.Mkdir(b.At("copy"), 0o700))

	b.Must(config.WriteFile(b.At("list"), []byte(code.String()+"\n")))
	folder := chain(b)
	fleet := func(args ...string) []string { return append([]string{"fleet", "--centre", folder}, args...) }
	verbs := [][]string{{"completion", "bash"}, {"audit"}, {"fsck"}, {"fsck", "--verbose"}, {"fsck", "--archive"},
		{"queue"}, {"contingency", "start", "--cause", "5", "--reason", hostile},
		{"contingency", "end"}, {"contingency", "report"}, {"contingency", "report", "--sent", hostile},
		{"token", "list"}, {"token", "revoke", "1"}, {"token", "rotate", "1"}, {"token", "grant", "1", hostile},
		{"token", "new", "--name", hostile, "--point-of-sale", "1"},
		{"delivery", "list"}, {"delivery", "retry", "--all"}, {"delivery", "forget", hostile}, {"rules", "list",
			"--all"}, {"rules", "rollback", hostile, "2", "1.0.0", "--reason", hostile},
		{"rules", "reinstate", hostile, "2", "1.0.0", "--reason", hostile}, {"rules", "cancel", hostile, "2", "1.0.0",
			"--reason", hostile}, {"rules", "acknowledge", "--reason", hostile}, {"rules", "push", "--reason", hostile,
			b.At("x.dterule")}, {"rules", "shadow", "start", b.At("x.dterule")}, {"rules", "shadow", "show"},
		{"rules", "shadow", "stop"}, {"rules", "backtest", b.At("x.dterule"), "--from", "2026-11-01"},
		{"rules", "replay", code.String()}, {"rules", "replay", "--from", "2026-11-01"}, {"rules", "documents",
			hostile}, {"invalidate", "--from-list", b.At("list"), "--kind", "2", "--reason", hostile, "--responsible",
			"María López,13,012345678"},
		{"tls", "show"}, {"token", "admin"}, {"doctor"},
		{"recover"}, {"recover", "--dry-run"}, {"recover", "--accept-loss", hostile}, {"recover", "--from", hostile},
		{"clock", "accept"}, {"rules", hostile}, {"certify"}, {"books", "--month", "2026-11", "--explain",
			code.String()}, {"books", "--month", "2026-11", "--out", b.At("books")},
		fleet("keygen", b.At("director")), fleet("enrol"), fleet("enrol", hostile+"="+hostile), fleet("enrol", "--all"),
		fleet("publish", "--group", "tiendas", "--reason", hostile, "--share", "100", "--soak", "0s",
			b.At("x.dterule")),
		fleet("status"), fleet("log"), fleet("hold", "--reason", hostile), fleet("resume"), fleet("roll"),
		fleet("back"), fleet("rekey", b.At("director.pub"), "--dry-run"), fleet("doctor", "--rounds", "2"),
		fleet("serve", "--listen", hostile),
		{"backup", b.At("backup")}, {"backup", b.At("backup"), "--check"}, {"recover", "--from", b.At("backup")},
		{"recover", "--from", "fleet"}}
	covered := make(map[string]bool)
	for name, why := range map[string]string{"init": "makes the store", "tls new": "makes a certificate",
		"rules new": "copies a plugin", "rules build": "writes a bundle", "rules test": "runs a plugin's cases",
		"rules keygen": "makes a key", "rules sign": "signs a bundle",
		"demo": "runs the appliance"} {
		covered[name] = why != ""
	}
	shown := regexp.MustCompile(`\\u001b\[2J\\u202e\\u009b31m`)
	seen := 0
	for _, args := range verbs {
		said, _ := dtectl(b, args...)
		for _, r := range said {
			if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
				t.Errorf("dtectl %q lets %q out:\n%q", args, r, said)
				break
			}
		}
		if strings.Contains("\n"+said, "\nok\tforged") || strings.Contains("\n"+said, "\nok  forged") ||
			strings.Contains(said, "ok\tforged") {
			t.Errorf("dtectl %q lets a line be forged:\n%s", args, said)
		}
		if shown.MatchString(said) {
			seen++
		}
		var c cli
		if command, err := parser(t.Context(), &c).Parse(args); err == nil {
			covered[strings.Join(names(command.Command()), " ")] = true
		} else if len(args) != 2 {
			t.Errorf("dtectl %q is no verb: %v", args, err)
		}
	}
	if seen < 20 {
		t.Errorf("%d verbs show a hostile text: the test drives too little", seen)
	}
	var c cli
	for _, leaf := range parser(t.Context(), &c).Model.Leaves(false) {
		if name := strings.Join(names(strings.TrimPrefix(leaf.FullPath(), "dtectl ")), " "); !covered[name] {
			t.Errorf("dtectl %s is not tried", name)
		}
	}

}

// names returns the words of a verb without its arguments.
func names(path string) (words []string) {
	for _, word := range strings.Fields(path) {
		if !strings.HasPrefix(word, "<") && !strings.HasPrefix(word, "[") && !strings.HasPrefix(word, "-") {
			words = append(words, word)
		}
	}
	return words
}
