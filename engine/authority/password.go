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

// CheckForm returns an error that names what a password of MH's API must have and this one lacks (MT2: 13 to 25 characters;
// letters, digits and others), nil for nothing. The error does not quote the password. MH may accept such a password all the
// same, if the account is older than this requirement.
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
