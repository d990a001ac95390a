package sheet

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"sync"
)

// errForm means that fpdf writes PDFs in another form than it did.
var errForm = errors.New("fpdf wrote a PDF in a form that is not known here")

var compressors = sync.Pool{New: func() any {
	z, _ := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed) // the level is one
	return z
}}

// deflated compresses the pages of a PDF that fpdf wrote without compression, and gives the bytes that fpdf writes with it. fpdf
// makes a compressor for each page, a MiB that is thrown away: half of what a document of 2,000 lines allocates, and of
// the collector's work beside the tills. pause is called after each page.
func deflated(raw []byte, pause func()) ([]byte, error) {
	const before, open = "obj\n", "<</Length "
	var out, packed bytes.Buffer
	z := compressors.Get().(*zlib.Writer)
	defer compressors.Put(z)
	var moves []move
	end := bytes.LastIndex(raw, []byte("\nxref\n")) + 1
	from := 0
	for {
		at := bytes.Index(raw[from:end], []byte(before+open))
		if at < 0 {
			break
		}
		at += from + len(before)
		length, rest, ok := bytes.Cut(raw[at+len(open):end], []byte(">>\nstream\n"))
		digits, more, _ := bytes.Cut(length, []byte("\n"))
		n, err := strconv.Atoi(string(digits))
		if err != nil || !ok || n < 0 || n > len(rest) || !bytes.HasPrefix(rest[n:], []byte("\nendstream\n")) {
			return nil, errForm
		}
		if len(more) > 0 { // a font, compressed
			out.Write(raw[from : end-len(rest)+n])
			from = end - len(rest) + n
			continue
		}
		packed.Reset()
		z.Reset(&packed)
		if _, err := z.Write(rest[:n]); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		out.Write(raw[from:at])
		fmt.Fprintf(&out, "<</Filter /FlateDecode /Length %d>>\nstream\n", packed.Len())
		out.Write(packed.Bytes())
		from = end - len(rest) + n
		moves = append(moves, move{from, out.Len() - from})
		pause()
	}
	out.Write(raw[from:end])
	return references(out.Bytes(), raw[end:], moves)
}

// move says that what is behind from in one PDF is by bytes further on in another.
type move struct{ from, by int }

// references writes the table of the objects' places, and the trailer, behind the objects of a PDF whose pages were compressed.
func references(out, table []byte, moves []move) ([]byte, error) {
	begin := len(out)
	const head, line, free = "xref\n0 ", "0000000000 00000 n \n", "0000000000 65535 f \n"
	numbers, found := bytes.CutPrefix(table, []byte(head))
	count, rest, ok := bytes.Cut(numbers, []byte("\n"))
	n, err := strconv.Atoi(string(count))
	if err != nil || !found || !ok || n < 1 || !bytes.HasPrefix(rest, []byte(free)) || len(rest)/len(line) < n {
		return nil, errForm
	}
	out = append(out, table[:len(table)-len(rest)+len(free)]...)
	for i := 1; i < n; i++ {
		entry := rest[i*len(line) : (i+1)*len(line)]
		at, err := strconv.Atoi(string(entry[:10]))
		if err != nil {
			return nil, errForm
		}
		if j := sort.Search(len(moves), func(j int) bool { return moves[j].from > at }); j > 0 {
			at += moves[j-1].by
		}
		out = append(fmt.Appendf(out, "%010d", at), entry[10:]...)
	}
	trailer, last, ok := bytes.Cut(rest[n*len(line):], []byte("startxref\n"))
	if !ok || !bytes.HasSuffix(last, []byte("\n%%EOF\n")) {
		return nil, errForm
	}
	return fmt.Appendf(append(out, trailer...), "startxref\n%d\n%%%%EOF\n", begin), nil
}
