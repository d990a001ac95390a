// Package apitest compares requests and answers of the tills' API with its OpenAPI document. Tests send their requests
// through Contract.Transport; Faults returns what broke the contract.
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing/iotest"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Contract is a parsed OpenAPI document, and a record of the exchanges so far. It is safe for concurrent use.
type Contract struct {
	operations []*operation

	mu     sync.Mutex
	faults map[string]bool
}

type operation struct {
	id, method string
	path       []string
	query      map[string]*parameter
	headers    []*parameter
	body       *jsonschema.Schema // nil: none
	mustBody   bool
	answers    map[int]*answer
}

type parameter struct {
	name     string
	required bool
	number   bool
	schema   *jsonschema.Schema
}

type answer struct {
	content map[string]*jsonschema.Schema // by media type; a nil schema: not JSON
	headers []string                      // required headers
	seen    int
}

// Transport passes requests on and checks each exchange against the contract, except on paths that are not the tills'.
func (c *Contract) Transport(next http.RoundTripper) http.RoundTripper { return transport{c, next} }

type transport struct {
	contract *Contract
	next     http.RoundTripper
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(got))
	if err != nil { // the test sees what arrived, and that it was cut
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(got), iotest.ErrReader(err)))
		return resp, nil
	}
	t.contract.Check(req, sent, resp, got)
	return resp, nil
}

// maxSeen is how many exchanges of one operation and status are checked: a test that sells for minutes must not become
// slow.
const maxSeen = 1000

// Check checks one exchange against the contract.
func (c *Contract) Check(req *http.Request, sent []byte, resp *http.Response, got []byte) {
	for _, prefix := range []string{"/metrics", "/livez", "/readyz", "/status", "/admin/"} {
		if strings.HasPrefix(req.URL.Path, prefix) {
			return
		}
	}
	method := req.Method
	if method == http.MethodHead { // the contract: HEAD is GET without the body
		if method = http.MethodGet; len(got) > 0 {
			c.fault("HEAD %s: has a body", req.URL.Path)
		}
	}
	o, other := c.find(method, req.URL.EscapedPath())
	if o == nil {
		if resp.StatusCode != http.StatusNotFound && !((other || req.Method == http.MethodHead) &&
			resp.StatusCode == http.StatusMethodNotAllowed) {
			c.fault("%s %s: is not in the contract and answers %d", req.Method, req.URL.Path, resp.StatusCode)
		}
		return
	}
	fault := func(format string, args ...any) {
		c.fault("%s %d: %s", o.id, resp.StatusCode, fmt.Sprintf(format, args...))
	}
	a := o.answers[resp.StatusCode]
	if a == nil {
		fault("is not a status of the operation: %.300s", got)
		return
	}
	c.mu.Lock()
	a.seen++
	seen := a.seen
	c.mu.Unlock()
	if seen > maxSeen {
		return
	}
	for _, name := range a.headers {
		if resp.Header.Get(name) == "" {
			fault("has no header %s", name)
		}
	}
	if req.Method != http.MethodHead {
		a.check(resp.Header.Get("Content-Type"), got, fault)
	}
	if resp.StatusCode < 300 {
		o.check(req, sent, fault)
	} else if req.Method != http.MethodHead {
		foreign(got, fault)
	}
}

// english matches an English word and a space after it. No Spanish text has one of these words.
var english = regexp.MustCompile(
	`(?i)\b(the|is|are|was|not|must|should|cannot|with|from|and|failed|invalid|required|expected|unexpected|unknown|missing|refused|closed|connection|reading|writing|timeout|no such)\b `)

// foreign reports an answer with a message that a cashier cannot read: in English, or empty.
func foreign(got []byte, fault func(string, ...any)) {
	var said struct {
		Message string
		Errors  []struct{ Code, Message string }
	}
	if json.Unmarshal(got, &said) != nil {
		return // the check against the schema reports it
	}
	texts := []string{said.Message}
	for _, e := range said.Errors {
		texts = append(texts, e.Message)
	}
	for _, text := range texts {
		if word := english.FindString(text); word != "" {
			fault("a till reads English: %q", text)
		}
		if strings.TrimSpace(text) == "" {
			fault("a message is empty: %.300s", got)
		}
	}
}

func (a *answer) check(kind string, got []byte, fault func(string, ...any)) {
	if len(a.content) == 0 {
		if len(got) > 0 {
			fault("has a body: %.300s", got)
		}
		return
	}
	media, _, _ := mime.ParseMediaType(kind)
	schema, known := a.content[media]
	switch {
	case !known:
		fault("is %q", kind)
	case schema != nil:
		if err := valid(schema, got); err != nil {
			fault("%v\n%.1500s", err, got)
		}
	}
}

// check checks an accepted request against the contract: the appliance must not accept more than the contract says.
func (o *operation) check(req *http.Request, sent []byte, fault func(string, ...any)) {
	query := req.URL.Query()
	for name, values := range query {
		p := o.query[name]
		if p == nil {
			if len(o.query) > 0 { // an operation without parameters ignores the query
				fault("takes the parameter %s", name)
			}
			continue
		}
		if err := p.check(values[0]); err != nil {
			fault("takes %s=%s: %v", name, values[0], err)
		}
	}
	for name, p := range o.query {
		if p.required && !query.Has(name) {
			fault("needs no %s", name)
		}
	}
	for _, p := range o.headers {
		if v := req.Header.Get(p.name); v != "" {
			if err := p.check(v); err != nil {
				fault("takes %s: %s: %v", p.name, v, err)
			}
		}
	}
	switch {
	case len(sent) == 0 && o.mustBody:
		fault("needs no body")
	case len(sent) > 0 && o.body == nil:
		fault("takes a body")
	case len(sent) > 0:
		if err := valid(o.body, sent); err != nil {
			fault("takes %.1500s: %v", sent, err)
		}
	}
}

func (p *parameter) check(value string) error {
	if p.number {
		return valid(p.schema, []byte(value))
	}
	return p.schema.Validate(value)
}

func valid(schema *jsonschema.Schema, document []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// find returns the operation of a request; other reports whether the path has only operations with other methods.
func (c *Contract) find(method, path string) (o *operation, other bool) {
	parts := strings.Split(path, "/")
	for _, o := range c.operations {
		if len(o.path) != len(parts) || !slices.EqualFunc(o.path, parts, func(t, p string) bool {
			return t == p || strings.HasPrefix(t, "{") && p != ""
		}) {
			continue
		}
		if o.method == method {
			return o, true
		}
		other = true
	}
	return nil, other
}

func (c *Contract) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[fmt.Sprintf(format, args...)] = true
}

// Faults returns what broke the contract, each fault once.
func (c *Contract) Faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.faults))
}

// Unseen returns the documented answers that no exchange had, as "operation status"; if only successes are wanted, as
// "operation".
func (c *Contract) Unseen(successes bool) (unseen []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.operations {
		for status, a := range o.answers {
			if a.seen == 0 && (!successes || status < 300) {
				unseen = append(unseen, fmt.Sprintf("%s %d", o.id, status))
			}
		}
	}
	slices.Sort(unseen)
	return unseen
}
