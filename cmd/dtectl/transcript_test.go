package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/engine/archive/archivetest"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/sign"
	"dtegate/plugins/plugintest"
	"dtegate/rules/asmtest"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// TestTranscripts runs the commands of testdata/transcripts, each file at a box of its own, whose appliance gives the
// answers that the file contains. Everything that a command asks, prints and leaves must be as the file says.
//
//	< 200 {"a":1}   the appliance's next answer; 503+4 has a Retry-After; {+24h}, {TODAY}, «base64»
//	@ list 1\n2\n   writes a file of the box
//	~ old => new    changes the box's configuration
//	$ dtectl …      runs a verb as main does; DIR is the box's folder
//	$ show PATTERN  prints the files that match a pattern, or the text of one file
//	$ chain, $ status BRANCH EPOCH JSON, $ lose KEY, $ checkout, $ remove PATTERN, $ fill DAY N, $ act WHAT…,
//	$ hold, $ release, $ archive, $ certificate NIT DAYS
//
// Below a command: its requests (>), its standard output (|), its standard error (!), and its exit status if not 0.
func TestTranscripts(t *testing.T) {
	if folder := os.Getenv("DTECTL_HELD"); folder != "" {
		s, err := storage.OpenReadOnly(storage.Options{Dir: folder, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
		fmt.Println(s, err)
		_, _ = io.ReadAll(os.Stdin)
		os.Exit(0)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "transcripts", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cmdtest.Golden(t, filepath.Join("transcripts", filepath.Base(file)), newTranscript(t).play(string(want)), *update)
		})
	}
}

type transcript struct {
	*barebox.Box
	answers []string
	asked   []string
	shown   map[string]string // texts of this run, and what the file has for them
	digest  string            // of DIR/x.dterule
	held    *exec.Cmd         // a process that has the store open, as a running appliance has
	release func() error
	acts    int
}

func newTranscript(t *testing.T) *transcript {
	p := &transcript{Box: barebox.New(t, "127.0.0.1:1")}
	p.shown = map[string]string{p.Dir: "DIR", adminclient.Who(): "OPERATOR"}
	key, err := os.ReadFile(p.At("rules.key"))
	p.Must(err)
	private, err := bundle.ParsePrivate(key)
	p.Must(err)
	data, err := bundle.Write(map[string][]byte{"catalogues.json": []byte("{}")}, bundle.Manifest{Name: "catalogues",
		Version: "1.0.0", Kind: "catalogue", Document: "catalogues", Schema: 2, ABI: 1,
		Validity: map[string]bundle.Window{"00": {From: "2026-11-01"}}}, bundle.Signer{ID: "central-it",
		Private: private})
	p.Must(err, os.WriteFile(p.At("x.dterule"), data, 0o600))
	opened, err := bundle.Inspect(data)
	p.Must(err)
	p.digest = opened.Digest
	p.shown[p.digest] = "{DIGEST}"
	for listener, shown := range map[string]string{"api": "TILLS", "ops": "APPLIANCE"} {
		server := httptest.NewServer(http.HandlerFunc(p.answer))
		t.Cleanup(server.Close)
		p.shown[server.Listener.Addr().String()] = shown
		p.configure(listener+` = {listen = "127.0.0.1:0"`, listener+` = {listen = "`+server.Listener.Addr().String()+`"`)
	}
	return p
}

func (p *transcript) configure(old, new string) {
	p.T.Helper()
	text, err := os.ReadFile(p.Options.Config)
	p.Must(err)
	if !strings.Contains(string(text), old) {
		p.T.Fatalf("the configuration has no %s", old)
	}
	p.Must(config.WriteFile(p.Options.Config, bytes.Replace(text, []byte(old), []byte(new), 1)))
}

func (p *transcript) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	q := r.URL.Query()
	if !strings.HasPrefix(r.URL.Path, "/dte/") && (q.Get("who") != adminclient.Who() ||
		r.Header.Get("Authorization") != "Bearer "+barebox.AdminToken) {
		p.asked = append(p.asked, "a request without the token or the operator's name")
	}
	q.Del("who")
	if bytes.IndexByte(body, 0) >= 0 {
		body = fmt.Appendf(nil, "(a bundle)")
	}
	token := r.Header.Get("x-api-token") // only a till's request has a token and a key
	if file, _ := os.ReadFile(p.At("till")); token != "" && token == string(bytes.TrimSpace(file)) {
		token = "till"
	}
	as := strings.TrimSpace(token + " " + r.Header.Get("Idempotency-Key"))
	p.asked = append(p.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.Path, q.Encode(), as, body)))
	if len(p.answers) == 0 {
		http.Error(w, "the transcript has no answer left", http.StatusTeapot)
		return
	}
	status, text, _ := strings.Cut(p.answers[0], " ")
	p.answers = p.answers[1:]
	status, after, later := strings.Cut(status, "+")
	if later {
		w.Header().Set("Retry-After", after)
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		code, text = http.StatusTeapot, err.Error()
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, p.timed(text))
}

var signed = regexp.MustCompile(`«[^»]*»`)

var fromNow = regexp.MustCompile(`\{([+-][0-9]+h)\}`)

// timed replaces {+24h} by a time, and «text» by its base64.
func (p *transcript) timed(text string) string {
	text = signed.ReplaceAllStringFunc(text, func(m string) string {
		return base64.StdEncoding.EncodeToString([]byte(m[len("«") : len(m)-len("»")]))
	})
	text = strings.NewReplacer("{DIGEST}", p.digest, "{TODAY}", dte.Date(time.Now())).Replace(text)
	return fromNow.ReplaceAllStringFunc(text, func(m string) string {
		d, err := time.ParseDuration(fromNow.FindStringSubmatch(m)[1])
		p.Must(err)
		at := time.Now().Add(d + 20*time.Second).In(dte.Zone).Truncate(time.Second)
		p.shown[adminclient.Local(at)] = m
		p.shown[at.Format("02/01/2006 15:04:05")] = m
		return at.Format(time.RFC3339)
	})
}

var (
	lasting = regexp.MustCompile(`\b([0-9]+h)?[0-9]+m[0-9]+s\b`)
	clock   = regexp.MustCompile(`\b\d\d/\d\d/20\d\d \d\d:\d\d:\d\d\b`)
	local   = regexp.MustCompile(`\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d -06:00`)
	stamp   = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|-06:00)`)
	store   = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	gaps    = regexp.MustCompile(`   +`)
	digest  = regexp.MustCompile(`\([0-9a-f]{12}\)`)
	ago     = regexp.MustCompile(`\b\d+ s `)
	written = regexp.MustCompile(`\bin [0-9.]+m?s\b`)
	lasts   = regexp.MustCompile(`\b(name|connection|TLS) [0-9.]+[µm]?s`)
	medium  = regexp.MustCompile(`(?m)^(ok|warn|fail) +disk  .*\n( +→ (free some|every sale) .*\n)?`)
	size    = regexp.MustCompile(`\b[0-9.]+ KiB`)
	sale    = regexp.MustCompile(`(?m)^(next |GET /dte|POST /dte|  "since": |<).*`)
	hosts   = regexp.MustCompile(`\S+ localhost (.*)127\.0\.0\.1 ::1.*`)
	minute  = regexp.MustCompile(`\b20\d\d-\d\d-\d\d \d\d:\d\d\b`)
	probe   = regexp.MustCompile(`doctor/[A-Z2-7]{26}/`)
	random  = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	took    = regexp.MustCompile(`\b[0-9]+ ms\b`)
	until   = regexp.MustCompile(`(?m)\b(until|ends on|ended on) (20\d\d-\d\d-\d\d)([,:]|$)`)
	folder  = regexp.MustCompile(`\.(replaced|damaged)-[0-9]{8}T[0-9.]+`)
)

// untilNow replaces the end of a certificate by its years or days from now.
func untilNow(text string) string {
	m := until.FindStringSubmatch(text)
	now := time.Now()
	for n := -9; n < 8000; n++ {
		switch m[2] {
		case dte.Date(now.AddDate(n, 0, 0)):
			return fmt.Sprintf("%s {%+dy}%s", m[1], n, m[3])
		case dte.Date(now.AddDate(0, 0, n)):
			return fmt.Sprintf("%s {%+dd}%s", m[1], n, m[3])
		}
	}
	return text
}

// stable replaces what another run prints otherwise: times near now, lengths of time by the second, secrets, digests.
func (p *transcript) stable(text string) string {
	longest := func(a, b string) int { return len(b) - len(a) }
	for _, old := range slices.SortedFunc(maps.Keys(p.shown), longest) {
		text = strings.ReplaceAll(text, old, p.shown[old])
	}
	text = lasting.ReplaceAllStringFunc(text, func(d string) string {
		if parsed, err := time.ParseDuration(d); err == nil && parsed > time.Hour {
			return strings.TrimSuffix(parsed.Round(time.Minute).String(), "0s")
		}
		return d
	})
	for _, form := range []struct {
		layout string
		*regexp.Regexp
	}{{"02/01/2006 15:04:05", clock}, {time.RFC3339, stamp}, {"2006-01-02 15:04:05 -07:00", local},
		{"2006-01-02 15:04", minute}} {
		text = form.ReplaceAllStringFunc(text, func(at string) string {
			parsed, _ := time.ParseInLocation(form.layout, at, dte.Zone)
			for hours, shown := range map[int]string{0: "NOW", 24: "NOW+24h"} {
				if time.Until(parsed.Add(-time.Duration(hours)*time.Hour)).Abs() < 2*time.Minute {
					return shown
				}
			}
			return at
		})
	}
	text = strings.ReplaceAll(hosts.ReplaceAllString(text, "HOST localhost ${1}127.0.0.1 ::1 …"),
		time.Now().In(dte.Zone).Format("060102")+"01", "TODAY01")
	text = sale.ReplaceAllStringFunc(text, func(line string) string {
		now := time.Now()
		return strings.NewReplacer(dte.Date(now), "TODAY", dte.Date(now.AddDate(0, 0, 30)), "TODAY+30").Replace(line)
	})
	text = folder.ReplaceAllString(text, ".${1}-NOW")
	if len(p.asked) == 0 || strings.Contains(text, "renewal") { // an answer has days of its own
		text = until.ReplaceAllStringFunc(text, untilNow)
	}
	if len(p.asked) == 0 {
		text = ago.ReplaceAllString(text, "0 s ")
		text = written.ReplaceAllString(text, "in 0 ms")
		text = digest.ReplaceAllString(text, "(DIGEST)")
		text = size.ReplaceAllString(text, "SIZE")
		text = took.ReplaceAllString(text, "0 ms")
	}
	text = lasts.ReplaceAllString(medium.ReplaceAllString(text, "disk …\n"), "$1 0s")
	text = store.ReplaceAllString(text, "HEX32")
	text = probe.ReplaceAllString(text, "doctor/TEXT/")
	return random.ReplaceAllString(text, "HEX64")
}

// play runs the commands of a transcript, and returns it with what they did now.
func (p *transcript) play(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		if line == "" || !strings.Contains(">|!", kind) && kind != "exit" {
			out.WriteString(line + "\n")
		}
		switch kind {
		case "<":
			p.answers = append(p.answers, rest)
		case "@":
			name, content, _ := strings.Cut(rest, " ")
			unquoted, err := strconv.Unquote(`"` + strings.ReplaceAll(content, `"`, `\"`) + `"`)
			p.Must(err, os.MkdirAll(filepath.Dir(p.At(name)), 0o700),
				os.WriteFile(p.At(name), []byte(p.timed(unquoted)), 0o600))
		case "~":
			before, after, _ := strings.Cut(strings.ReplaceAll(rest, `\n`, "\n"), " => ")
			p.configure(before, after)
		case "$":
			args := split(strings.ReplaceAll(rest, "DIR", p.Dir))
			p.step(&out, args[0], args[1:])
		}
	}
	return out.String()
}

func (p *transcript) status(branch, epoch, text string) {
	centre, err := config.LoadCentre(p.At("fleet.toml"))
	p.Must(err)
	store, err := centre.OpenStore()
	p.Must(err)
	n, err := strconv.ParseInt(epoch, 10, 64)
	p.Must(err)
	seed := sha256.Sum256([]byte(branch))
	key := ed25519.NewKeyFromSeed(seed[:])
	p.acts++
	s := &fleetproto.Status{Branch: branch, Group: "tiendas", Epoch: n, Sequence: int64(p.acts), At: time.Now(),
		Key: fleetproto.EncodeKey(key.Public().(ed25519.PublicKey))}
	p.Must(json.Unmarshal([]byte(p.timed(text)), s))
	data, err := fleetproto.Chain{Name: "cadena", Ambiente: "00"}.Seal(s, fleetproto.Signer{ID: "box", Private: key})
	p.Must(err, store.Overwrite(p.T.Context(), fleetproto.StatusKey(branch, n), data))
}

var taxpayer = sync.OnceValues(func() (*sign.Key, error) { return sign.Generate(2048) })

func (p *transcript) step(out io.Writer, verb string, args []string) {
	switch verb {
	case "dtectl":
		p.run(out, args)
	case "show":
		for _, pattern := range args {
			p.show(out, pattern)
		}
	case "remove":
		list, err := filepath.Glob(p.At(args[0]))
		p.Must(err)
		for _, file := range list {
			p.Must(os.RemoveAll(file))
		}
	case "fill":
		n, err := strconv.Atoi(args[1])
		s := p.Store()
		p.Must(err)
		p.Fill(s, args[0], n)
		p.Must(s.Close())
	case "act":
		s := p.Store()
		p.acts++
		at := time.Date(2026, 11, 1, 8, p.acts, 0, 0, dte.Zone)
		p.Must(audit.New(s, "00", nil, func() time.Time { return at }).Record(p.T.Context(), audit.Act{Who: "eva@caja",
			From: "10.0.0.7", What: args[0], Target: args[1], Detail: args[2], Outcome: args[3], Error: args[4]}), s.Close())
	case "checkout": // with the catalogues, and the module of a rule that adds quantities up
		p.Must(os.CopyFS(p.At("src/plugins/catalogues"), os.DirFS(filepath.Join(plugintest.Root(p.T), "plugins",
			"catalogues"))), os.WriteFile(p.At("sum.wasm"), asmtest.NewSum().Module().Bytes(), 0o600))
	case "chain":
		store := archivetest.StartOther(p.T)
		p.Must(os.WriteFile(p.At("store.secret"), []byte("x\n"), 0o600), os.WriteFile(p.At("fleet.toml"), fmt.Appendf(nil,
			"chain = \"cadena\"\nambiente = \"00\"\ncache = \"cache\"\n"+
				"store = {endpoint = %q, bucket = %q, access_key = \"x\", "+
				"secret_file = \"store.secret\", path_style = true}\ndirector = {public = \"director.pub\", "+
				"key = \"director.jwe\", passphrase_file = \"director.passphrase\"}\n", store.Endpoint(),
			archivetest.Bucket), 0o600))
		p.T.Setenv("DTECTL_FLEET", p.At("fleet.toml"))
	case "lose": // the chain's store loses an object
		centre, err := config.LoadCentre(p.At("fleet.toml"))
		p.Must(err)
		r, err := http.NewRequest(http.MethodDelete, centre.Store.Endpoint+"/"+archivetest.Bucket+"/"+args[0], nil)
		p.Must(err)
		resp, err := http.DefaultClient.Do(r)
		p.Must(err, resp.Body.Close())
	case "status": // of a branch's box, which signs it
		p.status(args[0], args[1], args[2])
	case "hold":
		p.held = exec.CommandContext(p.T.Context(), os.Args[0], "-test.run=^TestTranscripts$")
		p.held.Env = append(os.Environ(), "DTECTL_HELD="+p.Config.Data)
		in, err := p.held.StdinPipe()
		p.Must(err)
		out, err := p.held.StdoutPipe()
		p.Must(err, p.held.Start())
		_, err = out.Read(make([]byte, 1))
		p.Must(err)
		p.release = in.Close
	case "release":
		p.Must(p.release(), p.held.Wait())
	case "archive":
		store := archivetest.StartOther(p.T)
		p.Must(os.WriteFile(p.At("archive.secret"), []byte("x\n"), 0o600))
		p.configure("[rules]", fmt.Sprintf("[archive]\nendpoint = %q\nbucket = %q\naccess_key = \"x\"\n"+
			"secret_file = \"archive.secret\"\npath_style = true\n\n[rules]", store.Endpoint(), archivetest.Bucket))
	case "certificate":
		key, err := taxpayer()
		p.Must(err)
		days, err := strconv.Atoi(args[1])
		p.Must(err)
		crt, err := sign.DemoCertificate(key, args[0], "clave privada", time.Now().AddDate(0, 0, -9),
			time.Now().AddDate(0, 0, days))
		p.Must(err, os.WriteFile(p.At("mh.crt"), crt, 0o600), os.WriteFile(p.At("mh.password"), []byte("clave privada\n"),
			0o600))
	default:
		p.T.Fatalf("no step %q", verb)
	}
}

func (p *transcript) run(out io.Writer, args []string) {
	p.asked = nil
	stdout, stderr, status := typed(p.Box, args...)
	for _, part := range []struct{ mark, text string }{{"> ", strings.Join(p.asked, "\n")}, {"| ", stdout},
		{"! ", stderr}} {
		if len(p.asked) == 0 { // the length of the folder's name, and of lengths of time, sets the columns
			part.text = gaps.ReplaceAllString(part.text, "  ")
		}
		for line := range strings.Lines(p.stable(part.text)) {
			fmt.Fprintln(out, strings.TrimRight(part.mark+line, " \n"))
		}
	}
	for _, left := range p.answers {
		fmt.Fprintf(out, "! not asked for: %s\n", left)
	}
	p.answers = nil
	if status != 0 {
		fmt.Fprintf(out, "exit %d\n", status)
	}
}

// show prints the files that match a pattern: their modes, and what they contain if it is text.
func (p *transcript) show(out io.Writer, pattern string) {
	p.asked = nil
	list, err := filepath.Glob(p.At(pattern))
	p.Must(err)
	for _, file := range list {
		info, err := os.Stat(file)
		p.Must(err)
		fmt.Fprintf(out, "| %s %v\n", p.stable(strings.TrimPrefix(file, p.Dir+"/")), info.Mode())
		if strings.Contains(pattern, "*") || info.IsDir() {
			continue
		}
		data, err := os.ReadFile(file)
		p.Must(err)
		for line := range strings.Lines(p.stable(string(data))) {
			fmt.Fprintln(out, strings.TrimRight("|   "+strings.ReplaceAll(line, "\r", `\r`), " \n"))
		}
	}
}

// split divides a command line at its spaces; a part in single quotes is one argument.
func split(line string) (args []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 0 {
			args = append(args, strings.Fields(part)...)
		} else {
			args = append(args, part)
		}
	}
	return args
}

// typed runs dtectl as main does, and returns both its outputs and its exit status. Of kong's usage it keeps the error.
func typed(b *barebox.Box, args ...string) (stdout, stderr string, status int) {
	b.T.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // which books limits
	saved, savedArgs := os.Stderr, os.Args
	r, w, err := os.Pipe()
	b.Must(err)
	said := make(chan string)
	go func() {
		text, _ := io.ReadAll(r)
		said <- string(text)
	}()
	os.Stderr, os.Args = w, append([]string{"dtectl", "--config", b.Options.Config}, args...)
	stdout, _ = barebox.Output(b.T, func() error {
		var c cli
		k := parser(context.Background(), &c)
		k.Exit = func(code int) { status = code }
		k.FatalIfErrorf(run(&c, k))
		return nil
	})
	os.Stderr, os.Args = saved, savedArgs
	w.Close()
	stderr = <-said
	if strings.HasPrefix(stdout, "Usage: ") {
		stdout = ""
	}
	return stdout, stderr, status
}
