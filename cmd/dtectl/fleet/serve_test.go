package fleet

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/browsertest"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/gateway/certificate"
)

// served is the centre's page over a world, read once.
func served(t *testing.T, w *world, password string) (*site, *httptest.Server) {
	t.Helper()
	s := newSite(w.chain, password, "http")
	s.read(t.Context())
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// troubled is a chain with every kind of trouble.
func troubled(t *testing.T) *world {
	w := newWorld(t, "centro", "norte", "sur", "la-union", "oriente")
	all := Percent(fleetproto.Whole)
	w.must(w.publish(Publish{Files: []string{w.bundle("1.0.0", w.rules)}, Share: &all}))
	w.obey()
	w.must(w.roll())
	w.must(w.publish(Publish{Files: []string{w.bundle("1.1.0", w.rules)}, Pilots: []string{"centro", "norte"}}))
	w.box("norte").stage = fleetproto.StageReturned
	w.obey()
	w.now = w.now.Add(2 * time.Hour)
	for _, b := range w.boxes {
		b.status.Name = "La Ceiba " + b.status.Branch
		switch b.status.Branch {
		case "sur":
			b.status.Ready, b.status.NotReady = false, []string{"<script>alert(1)</script> the disk is full"}
		case "la-union":
			b.status.Contingency = &fleetproto.Contingency{Since: w.now.Add(-time.Hour), Cause: 1,
				Deadline: w.now.Add(20 * time.Hour)}
		}
		if b.status.Branch != "oriente" {
			b.report()
		}
	}
	w.add("nueva").report()
	return w
}

// The page finds a branch by the names that people know, and shows text of a box only as text.
func TestServe_Page(t *testing.T) {
	_, server := served(t, troubled(t), "")
	for query, want := range map[string]struct{ has, lacks string }{
		"":                       {"&lt;script&gt;alert(1)", "<script>"},
		"?q=union":               {"La Ceiba la-union", "La Ceiba centro"},
		"?q=CEIBA+sur":           {"La Ceiba sur", "La Ceiba norte"},
		"?q=M001P001":            {"La Ceiba centro", "ninguna"},
		"?q=nada-asi":            {"ninguna sucursal", "La Ceiba"},
		"?only=closed":           {"La Ceiba sur", "La Ceiba centro"},
		"?only=contingency":      {"La Ceiba la-union", "La Ceiba centro"},
		"?only=silent":           {"oriente", "La Ceiba centro"},
		"?only=waiting":          {"nueva", "La Ceiba centro"},
		"?lang=en":               {"cannot sell: ", "no puede vender"},
		`?q="><b>x</b>`:          {"&#34;&gt;&lt;b&gt;", "<b>x</b>"},
		"?lang=en&q=volvi%C3%B3": {"no branch matches", "La Ceiba"},
	} {
		code, body := get(t, server.URL+"/"+strings.ReplaceAll(query, `"><b>x</b>`, "%22%3E%3Cb%3Ex%3C/b%3E"))
		if code != 200 || !strings.Contains(body, want.has) || strings.Contains(body, want.lacks) {
			t.Errorf("%s: %d, has %v, lacks %v", query, code, strings.Contains(body, want.has), !strings.Contains(body,
				want.lacks))
		}
	}
	// The worst first.
	_, body := get(t, server.URL+"/")
	last := -1
	for _, name := range []string{"La Ceiba sur", "La Ceiba norte", "La Ceiba la-union", "nueva", "La Ceiba centro"} {
		at := strings.Index(body, "<b>"+name)
		if at <= last {
			t.Errorf("%s stands at %d, behind %d", name, at, last)
		}
		last = at
	}
}

// The page is readable on a phone and on a desk, light and dark, in both languages; it loads nothing from elsewhere.
func TestServe_Browser(t *testing.T) {
	b := browsertest.New(t)
	w := troubled(t)
	s, server := served(t, w, "")
	look := func(name, path string, wide int, scheme string) {
		t.Helper()
		b.Open(server.URL+path, wide, scheme)
		var bad []string
		var opened, tall int
		b.Evaluate(`[...document.querySelectorAll("details:not([open])")].map(d => d.open = true).length`, &opened)
		b.Evaluate(browsertest.Unfit, &bad)
		for _, what := range bad {
			t.Errorf("%s, %d points: %s", name, wide, what)
		}
		b.Evaluate(`[...document.querySelectorAll("summary, button, input[type=search], .counts a")].filter(e => e.getBoundingClientRect().height < 40).length`, &tall)
		if tall > 0 {
			t.Errorf("%s: %d things are too small for a finger", name, tall)
		}
		b.Keep(name, wide)
	}
	for _, wide := range []int{360, 1280} {
		look("fleet-es-dark", "/", wide, "dark")
		look("fleet-en-light", "/?lang=en", wide, "light")
		look("fleet-found", "/?q=norte", wide, "light")
	}
	// Somebody types into the search.
	b.Open(server.URL+"/", 360, "light")
	var shown int
	b.Evaluate(`(() => { const f = document.forms[0]; f.q.value = "union"; f.submit(); return 1 })()`, &shown)
	b.Loaded()
	b.Evaluate(`document.querySelectorAll(".branches li").length`, &shown)
	if shown != 1 {
		t.Errorf("%d branches are found", shown)
	}
	// The store is away: the page reports that and shows the last known state.
	w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
	s.read(t.Context())
	look("fleet-stale", "/", 360, "light")
	var text string
	b.Evaluate(`document.querySelector(".notice").textContent`, &text)
	if !strings.Contains(text, "No se puede leer") {
		t.Error(text)
	}
	for _, entry := range b.Blocked() {
		if !strings.Contains(entry, "favicon") {
			t.Errorf("the browser says: %s", entry)
		}
	}
}

// crowd is a chain of thousands on a bad day.
func crowd(t *testing.T, n int) *world {
	w := troubled(t)
	for i := range n {
		b := w.add(fmt.Sprintf("sucursal-%04d", i))
		st := &b.status
		st.Name, st.Rules, st.Desired = fmt.Sprintf("Farmacia San Nicolás %d, Centro Comercial", i),
			w.box("centro").status.Rules, w.box("centro").status.Desired
		switch {
		case i%50 == 3:
			st.Contingency = &fleetproto.Contingency{Since: w.now.Add(-time.Duration(i%20) * time.Hour), Cause: 2,
				Deadline: w.now.Add(time.Duration(i%24) * time.Hour)}
		case i%100 == 7:
			st.Rollout = &fleetproto.Progress{Name: "r2", Stage: fleetproto.StageRefused, Since: w.now,
				Reason: "cases: 2 of 20 cases differ"}
		case i%500 == 11:
			st.Ready, st.NotReady = false, []string{"The store cannot be read as it was written: nothing new is issued"}
		case i%200 == 13:
			st.Certificates = []fleetproto.Certificate{{Name: "signing", Ends: w.now.Add(9 * 24 * time.Hour)}}
		}
		b.report()
		if i%500 == 499 || i == n-1 { // a survey reads at most this many waiting boxes
			w.must((&Enrol{All: true}).Run(t.Context(), w.chain))
		}
	}
	return w
}

// Thousands of branches are readable on a phone: the worst first, counted, each found by its name, and the page stays
// small.
func TestServe_Crowd(t *testing.T) {
	n := 1000
	if os.Getenv("DTE_SOAK") != "" {
		n = 5000
	}
	w := crowd(t, n)
	_, server := served(t, w, "")
	_, page := get(t, server.URL+"/")
	if len(page) > 512<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if _, found := get(t, fmt.Sprintf("%s/?q=sucursal-%04d", server.URL, n-1)); strings.Count(found,
		"<li class=") != 1 {
		t.Error("the last branch is not found")
	}
	_, page = get(t, server.URL+"/?only=contingency")
	var left []int // hours
	for _, m := range regexp.MustCompile(`quedan (\d+) h`).FindAllStringSubmatch(page, -1) {
		n, err := strconv.Atoi(m[1])
		w.must(err)
		left = append(left, n)
	}
	if len(left) < n/60 || !slices.IsSorted(left) {
		t.Errorf("who has little time left by law does not stand first: %d", left)
	}
	b := browsertest.New(t)
	for _, path := range []string{"/", "/?only=contingency"} {
		b.Open(server.URL+path, 360, "light")
		var bad []string
		b.Evaluate(browsertest.Unfit, &bad)
		for _, what := range bad {
			t.Error(what)
		}
		b.Keep("fleet-crowd"+strings.NewReplacer("/", "", "?only=", "-").Replace(path), 360)
	}
}

// Prometheus finds each branch, and the branch's own up shows a silent branch.
func TestServe_Prometheus(t *testing.T) {
	w := troubled(t)
	s, server := served(t, w, "")
	_, text := get(t, server.URL+"/targets")
	var targets []target
	w.must(json.Unmarshal([]byte(text), &targets))
	if len(targets) != 5 { // the waiting box is not a target
		t.Fatalf("%+v", targets)
	}
	for _, target := range targets {
		code, body := get(t, "http://"+target.Targets[0]+target.Labels["__metrics_path__"])
		name := target.Labels["branch"]
		if (code == 200) != (name != "oriente") || target.Labels["group"] != "tiendas" ||
			target.Labels["__scheme__"] != "http" {
			t.Errorf("%+v: %d", target, code)
		}
		if code == 200 && (!strings.Contains(body, `dte_chain_branch_seen_timestamp_seconds{branch="`+name+`"`) ||
			strings.Count(body, "dte_chain_branch_level{") != 1) {
			t.Errorf("%s: %s", name, body)
		}
	}
	if code, _ := get(t, server.URL+"/metrics/branch/nadie"); code != 404 {
		t.Error(code)
	}
	_, all := get(t, server.URL+"/metrics")
	for _, line := range []string{`dte_chain_branch_ready{branch="sur",group="tiendas"} 0`,
		`dte_chain_branch_contingency{branch="la-union",group="tiendas"} 1`,
		`dte_chain_rollout_branches{group="tiendas",stage="failed"} 1`, `dte_chain_desired_version{group="tiendas"} 3`,
		`dte_chain_survey_failures_total 0`,
		fmt.Sprintf(`dte_chain_survey_timestamp_seconds %g`, float64(w.now.Unix()))} {
		if !strings.Contains(all, line+"\n") {
			t.Errorf("%s is not there:\n%s", line, all)
		}
	}
	w.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
	s.read(t.Context())
	if _, all := get(t, server.URL+"/metrics"); !strings.Contains(all, "dte_chain_survey_failures_total 1\n") {
		t.Error("a failure is not counted")
	}
	// Old data is not shown as today's.
	w.now = w.now.Add(time.Hour)
	if code, _ := get(t, server.URL+"/metrics/branch/centro"); code != 503 {
		t.Error(code)
	}
}

// Outside of this machine it requires a password and TLS; before it has read the store it says so.
func TestServe_Closed(t *testing.T) {
	w := newWorld(t, "centro")
	_, server := served(t, w, "una contraseña larga")
	for password, want := range map[string]int{"": 401, "otra": 401, "una contraseña larga": 200} {
		r, err := http.NewRequest(http.MethodGet, server.URL+"/metrics", nil)
		w.must(err)
		r.SetBasicAuth("prometheus", password)
		resp, err := http.DefaultClient.Do(r)
		w.must(err)
		w.must(resp.Body.Close())
		if resp.StatusCode != want {
			t.Errorf("%q: %d", password, resp.StatusCode)
		}
	}
	unread := httptest.NewServer(newSite(w.chain, "", "http"))
	defer unread.Close()
	for path, want := range map[string]int{"/": 200, "/targets": 503, "/metrics": 200,
		"/metrics/branch/centro": 503, "/x": 404} {
		if code, _ := get(t, unread.URL+path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	for _, listen := range []string{"0.0.0.0:0", ":0", "example.com:0", "nonsense"} {
		if err := (&Serve{Listen: listen}).Run(t.Context(), w.chain); err == nil || !strings.Contains(err.Error(), "--listen") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

// Nobody can guess the password: after ten wrong passwords in a minute from an address, none is checked, and each is
// counted. A site whose own name leads to this server reads nothing.
func TestServe_Strangers(t *testing.T) {
	const mostGuesses = 10
	w := newWorld(t, "centro")
	s, _ := served(t, w, "una contraseña larga")
	s.names = append(s.names, "cadena.example")
	ask := func(from, host, password string) int {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.RemoteAddr, r.Host = from, host
		if password != "" {
			r.SetBasicAuth("x", password)
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		return rec.Code
	}
	for host, want := range map[string]int{"127.0.0.1:8090": 200, "10.0.0.4": 200, "[::1]:8090": 200,
		"LOCALHOST:8090": 200, "cadena.example": 200,
		"evil.example:8090": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "": 421} {
		if got := ask("10.0.0.9:1", host, "una contraseña larga"); got != want {
			t.Errorf("Host %q: %d, want %d", host, got, want)
		}
	}
	for i := range 1000 {
		want := 401
		if i >= mostGuesses {
			want = 429
		}
		// one host has every address of an IPv6 network
		for _, from := range []string{"10.0.0.7:1", fmt.Sprintf("[2001:db8::%x]:1", i)} {
			if got := ask(from, "10.0.0.4", fmt.Sprint("guess ", i)); got != want {
				t.Fatalf("guess %d from %s: %d", i, from, got)
			}
		}
		if got := ask("10.0.0.8:1", "10.0.0.4", ""); got != 401 { // a browser that has not asked its user yet
			t.Fatal(got)
		}
		if i > mostGuesses {
			continue
		}
		if got := ask("10.0.0.6:1", "10.0.0.4", "una contraseña larga"); got != 200 { // a monitor asks for each branch
			t.Fatalf("the right password, for the %dth time in a minute: %d", i+1, got)
		}
	}
	if got := ask("10.0.0.7:2", "10.0.0.4", "una contraseña larga"); got != 429 {
		t.Errorf("the right password behind too many wrong ones: %d", got)
	}
	w.now = w.now.Add(time.Minute)
	if got := ask("10.0.0.7:2", "10.0.0.4", "una contraseña larga"); got != 200 {
		t.Errorf("a minute later: %d", got)
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Host = "localhost"
	r.SetBasicAuth("x", "una contraseña larga")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	if want := fmt.Sprintf("dte_chain_wrong_passwords_total %d\n", 2*mostGuesses); !strings.Contains(rec.Body.String(),
		want) {
		t.Errorf("%s is not in %s", want, rec.Body)
	}
}

// It serves until it is ended, and ends without an error.
func TestServe(t *testing.T) {
	w := newWorld(t, "centro")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := newSite(w.chain, "", "http")
	go func() { done <- serve(ctx, ln, s, time.Hour) }()
	code, _ := get(t, "http://"+ln.Addr().String()+"/")
	cancel()
	if err := <-done; err != nil || code != 200 {
		t.Errorf("%d, %v", code, err)
	}
}

// TestServe_Runs: it says where its page is, and there it asks for the password, by TLS and under the given names.
func TestServe_Runs(t *testing.T) {
	w := newWorld(t, "centro")
	own := &certificate.Own{Folder: w.at("tls"), Now: time.Now, Write: config.WriteFile}
	w.must(errors.Join(own.Create(), os.WriteFile(w.at("password"), []byte("una palabra larga\n"), 0o600)))
	r, out, err := os.Pipe()
	w.must(err)
	saved := term.Out
	term.Out = term.New(&out)
	defer func() { term.Out = saved }()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- (&Serve{Listen: "127.0.0.1:0", Certificate: own.ServerFile(), Key: own.ServerFile(),
			PasswordFile: w.at("password"), Names: []string{"cadena.example"}}).Run(ctx, w.chain)
	}()
	said, err := bufio.NewReader(r).ReadString('\n')
	w.must(err)
	address, found := strings.CutPrefix(strings.TrimSpace(said), "the chain's page is at https://127.0.0.1:")
	if !found {
		t.Fatal(said)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for host, want := range map[string]int{"cadena.example": 200, "127.0.0.1": 200, "evil.example": 421} {
		q, err := http.NewRequest(http.MethodGet, "https://127.0.0.1:"+address+"/", nil)
		w.must(err)
		q.Host = host
		q.SetBasicAuth("", "una palabra larga")
		resp, err := client.Do(q)
		w.must(err)
		w.must(resp.Body.Close())
		if resp.StatusCode != want {
			t.Errorf("%s: %d", host, resp.StatusCode)
		}
	}
	client.CloseIdleConnections()
	cancel()
	w.must(<-done)
}
