package schema

import (
	"fmt"
	"strings"
)

// format is one of JSON Schema's named formats.
type format struct {
	noun  string // Spanish, for messages
	match func(string) bool
}

var formats = map[string]*format{
	"date":  {"una fecha como 2026-12-31", isDate},
	"email": {"una dirección de correo como nombre@dominio.com", isEmail},
}

func findFormat(name string) (*format, error) {
	f, ok := formats[name]
	if !ok {
		return nil, fmt.Errorf("format %q is not understood", name)
	}
	return f, nil
}

// isDate is RFC 3339's full-date: four, two and two digits that name a day of the calendar.
func isDate(s string) bool {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return false
	}
	for i := range len(s) {
		if i != 4 && i != 7 && !isDecimal(s[i]) {
			return false
		}
	}
	year := int(s[0]-'0')*1000 + int(s[1]-'0')*100 + int(s[2]-'0')*10 + int(s[3]-'0')
	month := int(s[5]-'0')*10 + int(s[6]-'0')
	day := int(s[8]-'0')*10 + int(s[9]-'0')
	if month < 1 || month > 12 || day < 1 {
		return false
	}
	last := [...]int{1: 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		last = 29
	}
	return day <= last
}

// isEmail takes what RFC 5321 calls a mailbox without quoting and without address literals: the form that people
// have. Non-ASCII letters are taken on the left side (RFC 6531).
func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at > 64 || len(s) > 254 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	for i := range len(local) {
		switch c := local[i]; {
		case c == '.':
			if i == 0 || i == len(local)-1 || local[i-1] == '.' {
				return false
			}
		case c >= 0x80 || isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) >= 0:
		default:
			return false
		}
	}
	return isHost(domain)
}

func isHost(s string) bool {
	if s == "" {
		return false
	}
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] != '.' {
			if !isAlphanumeric(s[i]) && s[i] != '-' {
				return false
			}
			continue
		}
		label := s[start:i]
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		start = i + 1
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return isDecimal(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isDecimal(c byte) bool { return '0' <= c && c <= '9' }
