package adminapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/storage"
)

// asking is a request of an operator; form is "query body", with a body in JSON.
func asking(form string) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	query, body, _ := strings.Cut(form, " ")
	ctx.Request.SetRequestURI("/admin?" + query)
	ctx.Request.SetBodyString(body)
	return ctx
}

// refused returns the code of a refusal and the member that it blames: "VALIDATION_ERROR reason".
func refused(err error) string {
	var e *refusal.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	if len(e.Faults) > 0 {
		return e.Code + " " + e.Faults[0].Path
	}
	return e.Code
}

// keeper is a Keeper that remembers what it was asked.
type keeper struct{ asked string }

func (*keeper) Tokens() any { return "all" }

func (k *keeper) NewToken(by By, name string, point int64, permissions []string) (any, error) {
	k.asked = fmt.Sprint("new ", by.Who, " ", name, " ", point, " ", permissions)
	return "made", nil
}

func (k *keeper) RotateToken(by By, id int64, grace time.Duration) (any, error) {
	k.asked = fmt.Sprint("rotate ", by.Who, " ", id, " ", grace)
	return "rotated", nil
}

func (k *keeper) RevokeToken(by By, id int64) (any, error) {
	k.asked = fmt.Sprint("revoke ", by.Who, " ", id)
	return nil, ErrNoToken
}

// TestTokens: an order about a token reaches its keeper as the operator gave it, and a bad one does not.
func TestTokens(t *testing.T) {
	k := &keeper{}
	r := newRoutes(Options{Keeper: k})
	for _, c := range []struct {
		do              func(*fasthttp.RequestCtx) (any, error)
		form, id, asked string
		status          int
		fault           string
	}{
		{r.newToken, `who=ana {"name":"caja 1","point_of_sale":7,"permissions":["ANULACION"]}`, "",
			"new ana caja 1 7 [ANULACION]", 201, "<nil>"},
		{r.newToken, `who=ana {"name":7}`, "", "", 200, "VALIDATION_ERROR"},
		{r.rotateToken, "who=ana", "3", "rotate ana 3 0s", 200, "<nil>"},
		{r.rotateToken, ` {"grace":"24h"}`, "3", "rotate admin 3 24h0m0s", 200, "<nil>"},
		{r.rotateToken, ` {"grace":""}`, "3", "rotate admin 3 0s", 200, "<nil>"},
		{r.rotateToken, ` {"grace":"a day"}`, "3", "", 200, "VALIDATION_ERROR"},
		{r.rotateToken, " {", "3", "", 200, "VALIDATION_ERROR"},
		{r.rotateToken, "", "x", "", 200, "VALIDATION_ERROR id"},
		{r.revokeToken, "who=ana", "4", "revoke ana 4", 200, ErrNoToken.Error()},
		{r.revokeToken, "", "", "", 200, "VALIDATION_ERROR id"},
	} {
		k.asked = ""
		ctx := asking(c.form)
		ctx.SetUserValue("id", c.id)
		if _, err := c.do(ctx); k.asked != c.asked || refused(err) != c.fault || ctx.Response.StatusCode() != c.status {
			t.Errorf("%q of %q: the keeper was asked %q, want %q; status %d, %s", c.form, c.id, k.asked, c.asked,
				ctx.Response.StatusCode(), refused(err))
		}
	}
}

// TestBackup: a backup needs the full path of a folder. Its stream ends with the backup, or with why there is none. A
// second backup is refused while one is under way, and then begins.
func TestBackup(t *testing.T) {
	begun, end := make(chan string), make(chan error)
	r := newRoutes(Options{Backup: func(_ context.Context, dir string, progress storage.Progress) (*storage.Backup,
		error) {
		begun <- dir
		for done := range int64(4001) {
			progress(done, 4000)
		}
		return &storage.Backup{Store: "s", Documents: 3}, <-end
	}})
	r.front.Serving = t.Context()
	for _, c := range []struct {
		fault error
		want  string
	}{{errors.New("no space"), `{"error":"no space"}`}, {nil, `{"backup":{"store":"s",`}} {
		for form, want := range map[string]string{` {"dir":"usb"}`: "VALIDATION_ERROR", " {}": "VALIDATION_ERROR",
			"": "VALIDATION_ERROR"} {
			if _, err := r.makeBackup(asking(form)); refused(err) != want {
				t.Errorf("%q: %s, want %s", form, refused(err), want)
			}
		}
		here, there := net.Pipe()
		ctx := asking(` {"dir":"/media/usb"}`)
		ctx.Init2(here, nil, false)
		if _, err := r.makeBackup(ctx); err != nil || callerText(ctx, actTarget) != "/media/usb" ||
			callerText(ctx, actDetail) != "" {
			t.Errorf("%v about %q %q", err, callerText(ctx, actTarget), callerText(ctx, actDetail))
		}
		if dir := <-begun; dir != "/media/usb" {
			t.Errorf("of %q", dir)
		}
		if _, err := r.makeBackup(asking(` {"dir":"/other"}`)); refused(err) != "BACKUP_UNDER_WAY" {
			t.Errorf("a second: %v", err)
		}
		go func() { end <- c.fault }()
		got, err := io.ReadAll(ctx.Response.BodyStream())
		lines := strings.Split(strings.TrimSpace(string(got)), "\n")
		if err = errors.Join(err, here.Close(), there.Close()); err != nil || len(lines) != 1002 ||
			lines[1000] != `{"progress":{"documents":4000,"of":4000}}` || !strings.HasPrefix(lines[1001], c.want) {
			t.Errorf("%d lines, the last %q, %v", len(lines), lines[len(lines)-1], err)
		}
	}
}

// TestProblems: what an operator's order may do wrong has its code; anything else is a failure of the box.
func TestProblems(t *testing.T) {
	for cause, want := range map[error]string{
		rulestore.ErrReason:               "VALIDATION_ERROR reason",
		rulestore.ErrExpired:              "RULE_EXPIRED",
		rulestore.ErrNoSuchRule:           "NO_SUCH_RULE",
		rulestore.ErrNothingToAcknowledge: "NO_SUCH_RULE",
		ErrNoToken:                        "NO_SUCH_TOKEN",
		ErrTokenFault:                     "VALIDATION_ERROR",
		errors.New("disk"):                "doing it: disk",
	} {
		a := route{handle: func(*fasthttp.RequestCtx) (any, error) { return nil, fmt.Errorf("doing it: %w", cause) }}
		if err := a.answer(asking("")); refused(err) != want {
			t.Errorf("%v is answered with %s, want %s", cause, refused(err), want)
		}
	}
	for _, c := range []struct{ name, form, want string }{
		{"limit", "limit=0", "VALIDATION_ERROR limit"}, {"limit", "limit=9", "VALIDATION_ERROR limit"},
		{"limit", "limit=1", "<nil>"}, {"limit", "limit=8", "<nil>"}, {"limit", "", "<nil>"},
	} {
		if n, err := number(asking(c.form), c.name, 5, 1, 8); refused(err) != c.want || c.form == "" && n != 5 {
			t.Errorf("%q: %d %s", c.form, n, refused(err))
		}
	}
}

// TestPush: a bundle is put in force only with a reason; without one it may only be tried. A refused bundle is 422, and
// the trail has the step that refused it.
func TestPush(t *testing.T) {
	r := newRoutes(Options{Rules: rulestore.New(rulestore.Options{Ambiente: "00", Now: time.Now,
		Logger: slog.New(slog.DiscardHandler)})})
	for form, want := range map[string]int{" x": 0, "dry=0 x": 0, "dry=1 x": 422, "reason=a+rate x": 422,
		"dry=1&reason=a+rate x": 422} {
		ctx := asking(form)
		a, err := r.pushRule(ctx)
		if want == 0 {
			if !errors.Is(err, rulestore.ErrReason) || a != nil {
				t.Errorf("%q: %v %v", form, a, err)
			}
			continue
		}
		made, ok := a.(*rulestore.Activation)
		if !ok || err != nil || made.Refused == "" || ctx.Response.StatusCode() != want {
			t.Errorf("%q: %d, %+v %v", form, ctx.Response.StatusCode(), a, err)
			continue
		}
		reason := ""
		if strings.Contains(form, "reason") {
			reason = "a rate "
		}
		if got := callerText(ctx, actDetail); got != reason+"("+made.Refused+": "+made.Error+")" {
			t.Errorf("%q: the trail says %q", form, got)
		}
	}
	ctx := asking("reason=a+rate")
	if _, err := activated(ctx)(&rulestore.Activation{Rule: record.RuleRef{Name: "dte01", Version: "2.1.1"}},
		nil); err != nil || ctx.Response.StatusCode() != 200 || callerText(ctx, actTarget) != "dte01 2.1.1" ||
		callerText(ctx, actDetail) != "a rate" {
		t.Errorf("%d about %q %q: %v", ctx.Response.StatusCode(), callerText(ctx, actTarget), callerText(ctx, actDetail),
			err)
	}
	ctx = asking("who=ana&reason=a+rate&dry=1&fewer_cases=1")
	if o := order(ctx); o != (rulestore.Order{Who: "ana", Reason: "a rate", Dry: true, FewerCases: true}) {
		t.Errorf("%+v", o)
	}
	for query, want := range map[string]string{"for=745h": "VALIDATION_ERROR for", "for=0s": "VALIDATION_ERROR for",
		"for=x": "VALIDATION_ERROR for", "documents=0": "VALIDATION_ERROR documents", "for=744h": "<nil>", "": "<nil>"} {
		if _, err := r.shadowRule(asking(query + " x")); refused(err) != want {
			t.Errorf("a shadow for %q: %s, want %s", query, refused(err), want)
		}
	}
}

// deaf is a trail that takes nothing.
type deaf struct{ Audit }

func (deaf) Begin(context.Context, audit.Act) (*audit.Open, error) { return nil, errors.New("disk") }

// TestRecorded_Not: an act that the trail cannot begin to record is not done.
func TestRecorded_Not(t *testing.T) {
	done := 0
	err := newRoutes(Options{Audit: deaf{}}).recorded(asking(""), route{act: "rules.push",
		handle: func(*fasthttp.RequestCtx) (any, error) { done++; return nil, nil }})
	if refused(err) != refusal.CodeUnavailable || done != 0 {
		t.Errorf("done %d times: %v", done, err)
	}
}

// TestWithdraw: the trail has the reason of an invalidation, and its outcome unless the document is invalidated.
func TestWithdraw(t *testing.T) {
	const code = "3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01"
	const body = `{"tipoAnulacion":2,"motivo":"precio equivocado","responsable":{"nombre":"Ana Pérez",` +
		`"tipoDocumento":"13","numDocumento":"01234567-8"},"solicita":{"nombre":"Ana Pérez","tipoDocumento":"13",` +
		`"numDocumento":"01234567-8"}}`
	r := newRoutes(Options{})
	r.front.Deadline = time.Minute
	for verdict, want := range map[string]string{engine.RecallInvalidated: "precio equivocado",
		engine.RecallPending: "precio equivocado (PENDING)", engine.RecallRefused: "precio equivocado (REFUSED)"} {
		ctx := asking("code=" + strings.ToLower(code) + " " + body)
		a, err := r.withdraw(ctx, func(_ context.Context, req engine.InvalidationRequest) (*engine.Appraisal, error) {
			if req.Code.String() != code || !req.Caller.Operator || req.Reason != "precio equivocado" {
				t.Errorf("asked for %+v", req)
			}
			return &engine.Appraisal{Verdict: verdict, Faults: []dte.Fault{{Path: "motivo", Code: dte.FaultFormat}}}, nil
		})
		if err != nil || a == nil || callerText(ctx, actTarget) != code || callerText(ctx, actDetail) != want {
			t.Errorf("%s: about %q %q: %v", verdict, callerText(ctx, actTarget), callerText(ctx, actDetail), err)
		}
	}
	for form, want := range map[string]string{" " + body: "VALIDATION_ERROR code",
		"code=x " + body: "VALIDATION_ERROR code", "code=" + code + " {}": "VALIDATION_ERROR tipoAnulacion"} {
		if _, err := r.withdraw(asking(form), nil); refused(err) != want {
			t.Errorf("%.40q: %s, want %s", form, refused(err), want)
		}
	}
}

// TestStream: a stream has a line for all that its work sends, and ends with the error that ended it.
func TestStream(t *testing.T) {
	for fault, want := range map[string]string{"": "{\"progress\":{\"documents\":7}}\n",
		"the archive is away": "{\"progress\":{\"documents\":7}}\n{\"error\":\"the archive is away\"}\n"} {
		here, there := net.Pipe()
		ctx := new(fasthttp.RequestCtx)
		ctx.Init2(here, nil, false)
		r := newRoutes(Options{})
		r.front.Serving = t.Context()
		if _, err := r.stream(ctx, func(_ context.Context, send func(Line) error) error {
			if err := send(Line{Progress: &Progress{Documents: 7}}); err != nil || fault == "" {
				return err
			}
			return errors.New(fault)
		}); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(ctx.Response.BodyStream())
		if err = errors.Join(err, here.Close(), there.Close()); err != nil || string(got) != want {
			t.Errorf("%q: %q %v", fault, got, err)
		}
	}
}

// listing is a trail whose acts carry the state that a later start needs.
type listing struct{ Audit }

func (listing) Acts(int) ([]audit.Act, error) {
	return []audit.Act{{What: "token.new", State: []byte(`{"7":"ab"}`)}, {What: "rules.push"}}, nil
}

// TestAnswers: what is shown, and what an order lacks that does not say it.
func TestAnswers(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC) // the 21st in El Salvador
	r := newRoutes(Options{Audit: listing{}, Ready: func() error { return nil }})
	r.front.Now = func() time.Time { return now }
	shown, err := r.listActs(asking(""))
	if text := fmt.Sprint(shown); err != nil || !strings.Contains(text, "token.new") || strings.Contains(text, "[123 ") {
		t.Errorf("the acts are %s: %v", text, err)
	}
	ctx := asking("reason=x")
	if o := order(ctx); o.Who != ctx.RemoteIP().String() || callerName(ctx) != "admin" || callerOf(ctx).From != o.Who {
		t.Errorf("an order without a name is of %q: %+v", callerName(ctx), o)
	}
	if name := callerName(asking("who=an%1b[2Ja")); name != "an[2Ja" {
		t.Errorf("an operator called %q", name)
	}
	for query, want := range map[string]string{"from=2026-11-20": "2026-11-20 2026-11-21 <nil>",
		"from=2026-11-01&to=2026-11-02": "2026-11-01 2026-11-02 <nil>", "from=2026-11-22": "VALIDATION_ERROR from, to",
		"from=x": "VALIDATION_ERROR from, to"} {
		if p, err := r.period(asking(query)); fmt.Sprint(p.From, " ", p.To, " ", refused(err)) != want &&
			refused(err) != want {
			t.Errorf("%s: %+v %s, want %s", query, p, refused(err), want)
		}
	}
	for query, want := range map[string]string{"month=2026-13": "VALIDATION_ERROR month", "": "VALIDATION_ERROR month",
		"month=2026-11&after=-1": "VALIDATION_ERROR after", "code=x": "VALIDATION_ERROR code"} {
		if _, err := r.monthPage(asking(query)); refused(err) != want {
			t.Errorf("books, %q: %s, want %s", query, refused(err), want)
		}
	}
	for query, want := range map[string]string{"limit=0&rule=x": "limit", "limit=5001": "limit", "after=-1": "after",
		"from=2026-11-01": "rule, from, to, limit"} {
		if _, err := r.ruleDocuments(asking(query)); refused(err) != "VALIDATION_ERROR "+want {
			t.Errorf("documents of a rule, %q: %s, want %s", query, refused(err), want)
		}
	}
	for _, cause := range []error{nil, &refusal.Error{Code: "CLOCK_WRONG", Message: "reloj", English: "clock"}} {
		ctx := asking("")
		r.Ready = func() error { return cause }
		r.readyz(ctx)
		want := map[bool]string{true: "200 ok\n", false: "503 CLOCK_WRONG: clock\n"}[cause == nil]
		if got := fmt.Sprintf("%d %s", ctx.Response.StatusCode(), ctx.Response.Body()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAdmit: one token opens the operators' listener, by its own header; without a configured one nobody enters.
func TestAdmit(t *testing.T) {
	for _, c := range []struct {
		token, header string
		admitted      bool
	}{
		{"secret", "Bearer secret", true}, {"secret", "bearer  secret ", true}, {"secret", "Bearer other", false},
		{"secret", "Basic secret", false}, {"secret", "secret", false}, {"secret", "", false}, {"", "", false},
		{"", "Bearer ", false}, {"", "Bearer x", false},
	} {
		o := Options{}
		if c.token != "" {
			o.AdminToken = sha256.Sum256([]byte(c.token))
		}
		r, given := newRoutes(o), ""
		r.front.Wrong = func(_ *fasthttp.RequestCtx, with bool, _ string) error {
			given = fmt.Sprint(with)
			return errors.New("wrong")
		}
		ctx := asking("")
		if c.header != "" {
			ctx.Request.Header.Set("Authorization", c.header)
		}
		want := ""
		if !c.admitted {
			want = fmt.Sprint(c.header != "")
		}
		if _, sends := r.Sender(&ctx.Request.Header); sends != c.admitted || (r.Admit(ctx) == nil) != c.admitted ||
			given != want {
			t.Errorf("%+v: sender %v, given %q", c, sends, given)
		}
	}
}
