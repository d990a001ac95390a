package simulator

import (
	"errors"
	"unicode"
	"unicode/utf8"
)

// CheckPassword returns the fault of a password for MH's API, or nil (MT2: 13 to 25 characters; letters, digits and
// others). It checks the passwords of issuers. A login only compares: its password needs no particular form.
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
