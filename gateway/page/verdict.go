package page

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/refusal"
	"dtegate/gateway/problem"
)

// fresh is how long an error of the log is red. An older one is history: what is still wrong has a line of its own, or
// comes into the log again.
const fresh = time.Hour

// troubleLevel is the colour of a line of the log.
func troubleLevel(x Trouble, now time.Time) string {
	switch {
	case now.Sub(x.At) >= fresh:
		return ""
	case x.Error:
		return "bad"
	}
	return "warn"
}

// verdict is the one sentence: can the branch issue, and what is to be done. It comes last, for it says of no page that
// nothing needs doing while something on that page is red or yellow.
func (b *board) verdict(lang string, o *Overview) {
	late := slices.ContainsFunc(b.Deadlines, func(d deadline) bool { return d.Level == "bad" })
	state := "ok"
	switch {
	case o.Stopped != nil:
		state, b.Level, b.Reason = "stopped", "bad", stopped(lang, o.Stopped)
	case late:
		state, b.Level = "late", "bad"
	case len(b.Rejecting) > 0:
		state, b.Level, b.Reason = "rejecting", "bad", strings.Join(b.Rejecting, " ")
	case o.MH.Refused != nil:
		state, b.Level, b.Order = "password", "bad", PasswordOrder
		b.Reason = say(lang, passwordReason(o.MH.Refused))
	case o.Owed.Contingency != nil:
		state, b.Level = "contingency", "warn"
		b.Reason = say(lang, fmt.Sprintf("cause.%d", o.Owed.Contingency.Cause))
	case o.MH.Asked && !o.MH.Up:
		state, b.Level = "unsure", "warn"
	default:
		b.Level = b.worst()
		state = map[string]string{"ok": "ok", "warn": "watch", "bad": "attention"}[b.Level]
	}
	b.Title, b.Advice = say(lang, "verdict."+state), say(lang, "verdict."+state+".advice")
	if b.Level == "warn" && b.worst() == "bad" {
		b.Level, b.Advice = "bad", b.Advice+" "+say(lang, "verdict.red")
	}
}

// PasswordOrder is what central IT types on the box when MH has a new password of the taxpayer's API, as root.
const PasswordOrder = "systemd-ask-password -n 'MH API password' | " +
	"systemd-creds encrypt --name=authority.password - /etc/dted/authority.password.cred\nsystemctl restart dted"

// passwordReason is the text that says why MH refuses the password.
func passwordReason(err error) string {
	switch {
	case errors.Is(err, authority.ErrPasswordExpired):
		return "password.expired"
	case errors.Is(err, authority.ErrPasswordChange):
		return "password.change"
	}
	return "password.wrong"
}

// stopped is why nothing is issued, without the cause that is for the log.
func stopped(lang string, err error) string {
	var e *refusal.Error
	switch {
	case errors.As(err, &e) && lang == "es" && !e.Operator:
		return e.Message
	case errors.As(err, &e):
		return problem.OperatorMessage(e)
	case errors.Is(err, ErrNoRules):
		return say(lang, "stopped.rules")
	}
	return err.Error()
}

// worst is the worst level that something on the board has: bad, else warn, else ok. Warnings of the log are no state
// of the branch, and do not count.
func (b *board) worst() string {
	worst := "ok"
	see := func(level string) {
		if level == "bad" || level == "warn" && worst == "ok" {
			worst = level
		}
	}
	for _, facts := range [][]fact{b.Facts, b.Deliveries, b.Box} {
		for _, f := range facts {
			see(f.Level)
		}
	}
	for _, rules := range [][]ruleLine{b.Live, b.Coming, b.RulesRefused} {
		for _, r := range rules {
			see(r.Level)
		}
	}
	for _, d := range b.Deadlines {
		see(d.Level)
	}
	for _, q := range b.Waiting {
		see(q.Level)
	}
	for _, t := range b.Trouble {
		if t.Level == "bad" {
			see(t.Level)
		}
	}
	if b.Refused != "" || b.Returned != "" || b.GivenUp > 0 {
		see("bad")
	}
	return worst
}
