package simulator

import (
	"errors"
	"unicode"
	"unicode/utf8"
)

// CheckPassword returns what a password of MH's API has wrong (MT2: 13 to 25 characters; letters, digits and others),
// nil for nothing. Only an issuer's own password is checked so: a wrong one at the login is wrong whatever its form.
func CheckPassword(password string) error {
	var letter, digit, other bool
	for _, r := range password {
		switch {
		case unicode.IsLetter(r):
			letter = true
		case unicode.IsDigit(r):
			digit = true
		default:
			other = true
		}
	}
	switch n := utf8.RuneCountInString(password); {
	case n < 13 || n > 25:
		return errors.New("the password of MH's API has not 13 to 25 characters")
	case !letter || !digit || !other:
		return errors.New("the password of MH's API lacks a letter, a digit or a special character")
	}
	return nil
}
