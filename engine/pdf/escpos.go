package pdf

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Commands that all ESC/POS printers support.
const (
	posInit    = "\x1b@"         // ESC @: reset the settings of the previous document
	posNoKanji = "\x1c."         // FS .: bytes above 0x7F are letters, not halves of Chinese characters
	posPage    = "\x1bt\x02"     // ESC t 2: code page 850, multilingual
	posCenter  = "\x1ba\x01"     // ESC a
	posLeft    = "\x1ba\x00"     //
	posFontA   = "\x1bM\x00"     // ESC M: 12 dots a letter
	posFontB   = "\x1bM\x01"     // 9 dots a letter
	posBold    = "\x1bE\x01"     // ESC E
	posThin    = "\x1bE\x00"     //
	posTall    = "\x1d!\x01"     // GS !: twice as high
	posPlain   = "\x1d!\x00"     //
	posReverse = "\x1dB\x01"     // GS B: white on black
	posForward = "\x1dB\x00"     //
	posCut     = "\x1dV\x42\x00" // GS V 66: feed to the cutter, and cut all but a bridge of paper
)

// posColumns is how many letters of font A and of font B fit on a line.
var posColumns = [...][2]int{Ticket80: {48, 64}, Ticket58: {32, 42}}

// posModule is the side of a QR module in dots of 1/8 mm: the QR code is then 30 to 40 mm wide.
var posModule = [...]byte{Ticket80: 6, Ticket58: 5}

// escpos turns a ticket into commands. It leaves out the logo: thermal printers keep a logo in their own memory.
func escpos(parts []part, url string, layout Layout) []byte {
	var b bytes.Buffer
	b.WriteString(posInit + posNoKanji + posPage)
	for _, p := range parts {
		width := posColumns[layout][0]
		on, off := posFontA, ""
		switch p.tone {
		case toneSmall:
			on, width = posFontB, posColumns[layout][1]
		case toneBold:
			on, off = posFontA+posBold, posThin
			if n := len(p.left); n > width && n <= posColumns[layout][1] && !strings.Contains(p.left, " ") {
				on, width = posFontB+posBold, posColumns[layout][1] // small letters, so that a code fits on one line
			}
		case toneTitle, toneTotal:
			on, off = posFontA+posBold+posTall, posPlain+posThin
		}
		switch p.kind {
		case partLogo, partSpace:
		case partQR:
			b.WriteString("\n" + posCenter)
			posQR(&b, url, posModule[layout])
			b.WriteString("\n" + posLeft)
		case partRule:
			b.WriteString(posFontA + strings.Repeat("-", width) + "\n")
		default:
			if p.kind == partBand {
				on, off = on+posReverse, posForward+off
			}
			if p.middle {
				on, off = on+posCenter, off+posLeft
			}
			lines := posWrap(cp850(p.left), width)
			if p.kind == partPair {
				lines = posPair(cp850(p.left), cp850(p.right), width)
			}
			b.WriteString(on)
			for _, l := range lines {
				b.Write(append(l, '\n'))
			}
			b.WriteString(off)
		}
	}
	b.WriteString("\n" + posCut)
	return b.Bytes()
}

// posQR stores the content in the printer and prints it: model 2, level M.
func posQR(b *bytes.Buffer, content string, module byte) {
	command := func(function byte, data string) {
		n := len(data) + 2
		b.Write([]byte{0x1d, '(', 'k', byte(n), byte(n >> 8), 49, function})
		b.WriteString(data)
	}
	command(65, "2\x00")
	command(67, string(module))
	command(69, "1")
	command(80, "0"+content)
	command(81, "0")
}

func posWrap(s []byte, width int) [][]byte {
	var lines [][]byte
	var line []byte
	for word := range bytes.FieldsSeq(s) {
		if len(line) > 0 && len(line)+1+len(word) <= width {
			line = append(append(line, ' '), word...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, line)
		}
		for len(word) > width {
			lines, word = append(lines, bytes.Clone(word[:width])), word[width:]
		}
		line = bytes.Clone(word)
	}
	return append(lines, line)
}

// posPair puts a text at the left, and an amount at the right end of its last line, or below.
func posPair(left, right []byte, width int) [][]byte {
	if len(right) > width*2/3 {
		return append(posWrap(left, width), posWrap(right, width)...)
	}
	lines := posWrap(left, width-len(right)-1)
	last := len(lines) - 1
	lines[last] = append(lines[last], bytes.Repeat([]byte{' '}, width-len(lines[last])-len(right))...)
	lines[last] = append(lines[last], right...)
	return lines
}

// cp850High is code page 850 from 0x80 on. ı is not used: newer printers print € for it.
const cp850High = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐" +
	"└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈ\x00ÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u00ad±‗¾¶§÷¸°¨·¹³²■\u00a0"

var cp850Codes = func() map[rune]byte {
	m := map[rune]byte{}
	for i, r := range []rune(cp850High) {
		m[r] = byte(0x80 + i)
	}
	return m
}()

var cp850Near = strings.NewReplacer("–", "-", "—", "-", "‘", "'", "’", "'", "“", `"`, "”", `"`, "…", "...", "€", "EUR",
	"™", "TM", "•", "·", "Š", "S", "š", "s", "Ž", "Z", "ž", "z", "Œ", "OE", "œ", "oe", "Ÿ", "Y", "Ł", "L", "ł", "l",
	"Č", "C", "č", "c", "Ć", "C", "ć", "c", "Ń", "N", "ń", "n", "Ő", "O", "ő", "o", "Ű", "U", "ű", "u", "Ś", "S",
	"Ż", "Z", "ż", "z", "Ź", "Z", "ź", "z", "Ę", "E", "ę", "e", "Ą", "A", "ą", "a", "Ř", "R", "ř", "r", "Ě", "E",
	"Ğ", "G", "ğ", "g", "Ş", "S", "ş", "s", "İ", "I", "ı", "i", "Ā", "A", "ā", "a", "Ī", "I", "ī", "i", "Ū", "U")

// cp850 encodes a cleaned text with one byte for each letter. No byte is a command.
func cp850(s string) []byte {
	s = cp850Near.Replace(s)
	out := make([]byte, 0, utf8.RuneCountInString(s))
	for _, r := range s {
		c, ok := cp850Codes[r]
		switch {
		case ' ' <= r && r <= '~':
			c = byte(r)
		case !ok:
			c = '?'
		}
		out = append(out, c)
	}
	return out
}
