package authority

import (
	"errors"
	"unicode"
	"unicode/utf8"
)

// Length of a password of MH's API, in characters (MT2).
const (
	passwordShortest = 13
	passwordLongest  = 25
)

// CheckForm says what a password has that those of MH's API have not (MT2: 13 to 25 characters; letters, digits and others);
// nil for nothing. It says nothing of the password itself. MH decides what it takes: an account may be older than the rule.
func (p Password) CheckForm() error {
	var letter, digit, other bool
	for _, r := range string(p) {
		switch {
		case unicode.IsLetter(r):
			letter = true
		case unicode.IsDigit(r):
			digit = true
		default:
			other = true
		}
	}
	n := utf8.RuneCountInString(string(p))
	switch {
	case n < passwordShortest:
		return errors.New("it has fewer than 13 characters")
	case n > passwordLongest:
		return errors.New("it has more than 25 characters")
	case !letter:
		return errors.New("it has no letter")
	case !digit:
		return errors.New("it has no digit")
	case !other:
		return errors.New("it has letters and digits alone")
	}
	return nil
}
