package dte

import "strings"

// The numbers of people and firms are digits alone in a document (MT1), and have hyphens where people read them. What has
// not the digits of its kind stays as it was written: a foreign number is not ours to cut.

// FormatNIT writes a NIT as people do: 0614-290780-112-3. A NIT of nine digits is its bearer's DUI: 01234567-8.
func FormatNIT(s string) string {
	d := digits(s)
	if len(d) == 14 {
		return d[:4] + "-" + d[4:10] + "-" + d[10:13] + "-" + d[13:]
	}
	return FormatDUI(s)
}

// FormatDUI writes a DUI as people do: 01234567-8.
func FormatDUI(s string) string {
	if d := digits(s); len(d) == 9 {
		return d[:8] + "-" + d[8:]
	}
	return s
}

// FormatNRC writes an NRC, of two to eight digits, as people do: 123456-7.
func FormatNRC(s string) string {
	if d := digits(s); len(d) >= 2 && len(d) <= 8 {
		return d[:len(d)-1] + "-" + d[len(d)-1:]
	}
	return s
}

// FormatPhone writes a telephone of El Salvador as people do: 2222-2222, and +503 2222-2222 where the country stands before.
func FormatPhone(s string) string {
	switch d := digits(strings.TrimPrefix(strings.TrimSpace(s), "+")); {
	case len(d) == 8:
		return d[:4] + "-" + d[4:]
	case len(d) == 11 && d[:3] == "503":
		return "+503 " + d[3:7] + "-" + d[7:]
	}
	return s
}

// FormatDocument writes the number of a document of CAT-022 as people do. Without a kind, "", the number of digits tells.
func FormatDocument(kind, s string) string {
	switch kind {
	case "13":
		return FormatDUI(s)
	case "36", "":
		return FormatNIT(s)
	}
	return s
}

// digits are those of a number that holds nothing else but hyphens and spaces; "" of any other text.
func digits(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			out = append(out, c)
		case c != '-' && c != ' ':
			return ""
		}
	}
	return string(out)
}
