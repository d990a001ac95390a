package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtectl/adminclient"
)

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// TestInvalidate_Pace: MH gets no two events within Every, whatever lies between them; a check is no event and waits for
// nothing. While MH is away, the document is asked about again as often as the branch says, for as long as Patience.
func TestInvalidate_Pace(t *testing.T) {
	for name, c := range map[string]struct {
		done   []int // documents, by their place in the list, that were invalidated before
		away   int   // so many events find MH away
		events []time.Duration
		says   string
	}{
		"all":                     {nil, 0, []time.Duration{0, 500 * time.Millisecond, time.Second}, ""},
		"after a finished one":    {[]int{1}, 0, []time.Duration{0, 500 * time.Millisecond}, ""},
		"MH is away for a moment": {[]int{0}, 1, []time.Duration{0, 4 * time.Second, 4500 * time.Millisecond}, ""},
		"MH stays away": {nil, 9, []time.Duration{0, 4 * time.Second, 8 * time.Second, 12 * time.Second},
			"0 of 3 documents were checked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, away, checks := time.Now(), c.away, 0
				var events []time.Duration
				list := []recallLine{{code: "A"}, {code: "B"}, {code: "C"}}
				defer func(before http.RoundTripper) { http.DefaultTransport = before }(http.DefaultTransport)
				http.DefaultTransport = answering(func(r *http.Request) *http.Response {
					status, verdict := http.StatusOK, "POSSIBLE"
					at := slices.IndexFunc(list, func(l recallLine) bool { return l.code == r.URL.Query().Get("code") })
					switch {
					case strings.HasSuffix(r.URL.Path, "/check"):
						if checks++; slices.Contains(c.done, at) {
							verdict = "INVALIDATED"
						}
					case away > 0:
						away--
						status = http.StatusServiceUnavailable
						fallthrough
					default:
						events, verdict = append(events, time.Since(began)), "INVALIDATED"
					}
					return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"4"}}, Request: r,
						Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"verdict":%q}`, verdict)))}
				})
				token := filepath.Join(t.TempDir(), "token")
				if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				b, err := adminclient.Flags{Gateway: "http://127.0.0.1:1", TokenFile: token}.ProvideGateway(nil)
				if err != nil {
					t.Fatal(err)
				}
				command := invalidateCommand{Every: 500 * time.Millisecond, Patience: 12 * time.Second}
				err = command.recall(t.Context(), b, list, nil)
				if !slices.Equal(events, c.events) || (err != nil) != (c.says != "") || err != nil &&
					!strings.Contains(err.Error(), c.says) || err == nil && checks != len(list) {
					t.Errorf("events after %v, want %v; %d checks; %v", events, c.events, checks, err)
				}
			})
		})
	}
}

// TestReadRecallList: a document counts once; a line that cannot be understood, or contradicts another, ends the run
// before anything is sent.
func TestReadRecallList(t *testing.T) {
	const a, b, c = "FF84E5DB-79C5-42CE-B415-EC510C53EFB5", "0F84E5DB-79C5-42CE-B415-EC510C53EFB5",
		"1F84E5DB-79C5-42CE-B415-EC510C53EFB5"
	read := func(text string) ([]recallLine, error) {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readRecallList(path)
	}
	for text, want := range map[string][]recallLine{
		"# head\n\n " + a + " \n" + b + " " + c:                                       {{a, ""}, {b, c}},
		strings.ToLower(a) + "\n" + a + "\n":                                          {{a, ""}},
		a + " " + b + "\n" + a + " " + b:                                              {{a, b}},
		`{"codigoGeneracion": "` + a + `", "codigoGeneracionReemplazo": "` + b + `"}`: {{a, b}},
		`{"codigoGeneracion": "` + a + `"}`:                                           {{a, ""}},
	} {
		if list, err := read(text); err != nil || !slices.Equal(list, want) {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
	for _, bad := range [][2]string{{a + " " + b + "\n" + a + " " + c, "list:2: " + a + " is listed twice"},
		{a + "\n" + a + " " + c, "list:2: " + a + " is listed twice"}, {a + "\n\nx", `list:3: "x" is not a codigo`},
		{a + " x", `list:1: "x" is not a codigo`}, {a + " " + b + " " + c, "list:1: a line is CODE"},
		{`{"codigo": "` + a + `"}`, `list:1: "" is not`}, {"{", "list:1: "}, {"# none", "list names no document"}} {
		if _, err := read(bad[0]); err == nil || !strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%q: %v, want %q", bad[0], err, bad[1])
		}
	}
}
