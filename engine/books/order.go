package books

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// order sorts documents by the second of issue, then by series, type and number. It depends only on the document,
// therefore documents that are read in any order give the same files.
type order struct {
	second int64
	series [8]byte // establishment and point of sale
	number uint64
	kind   uint8 // CAT-002
	tie    uint8
}

func (o order) compare(b order) int {
	return cmp.Or(cmp.Compare(o.second, b.second), cmp.Compare(string(o.series[:]), string(b.series[:])),
		cmp.Compare(o.kind, b.kind), cmp.Compare(o.number, b.number), cmp.Compare(o.tie, b.tie))
}

func orderOf(d *sealed, date string) (order, error) {
	at, err := time.Parse("2006-01-02 15:04:05", date+" "+d.hour)
	if err != nil {
		return order{}, fmt.Errorf("document %s: its date and hour: %w", d.Code, err)
	}
	o := order{second: at.Unix()}
	if len(d.ControlNumber) == 31 {
		copy(o.series[:], d.ControlNumber[7:15])
		o.number, _ = strconv.ParseUint(d.ControlNumber[16:], 10, 64) // 0, which sorts first, if it is not a number
	}
	kind, _ := strconv.ParseUint(d.Type, 10, 8)
	o.kind = uint8(kind)
	return o, nil
}

// spool keeps rows in a temporary file and returns them in order. It needs 48 bytes of memory for each row.
type spool struct {
	file  *os.File
	out   *bufio.Writer
	end   int64
	index []spooled
}

type spooled struct {
	order
	at int64
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "spool-")
	if err != nil {
		return nil, fmt.Errorf("collecting rows: %w", err)
	}
	return &spool{file: f, out: bufio.NewWriterSize(f, 1<<16)}, nil
}

// unit separates the cells of a spooled row. Cells contain no control characters, because text removes them.
const unit = "\x1f"

func (s *spool) add(o order, cells []string) error {
	line := strings.Join(cells, unit)
	s.index = append(s.index, spooled{o, s.end})
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(line)))
	s.end += int64(4 + len(line))
	if _, err := s.out.Write(size[:]); err != nil {
		return fmt.Errorf("collecting rows: %w", err)
	}
	if _, err := s.out.WriteString(line); err != nil {
		return fmt.Errorf("collecting rows: %w", err)
	}
	return nil
}

// rows returns how many rows a spool holds; a nil spool holds 0.
func (s *spool) rows() int {
	if s == nil {
		return 0
	}
	return len(s.index)
}

// eachRow calls fn with the rows in their order.
func (s *spool) eachRow(fn func(cells []string) error) error {
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("collecting rows: %w", err)
	}
	slices.SortStableFunc(s.index, func(a, b spooled) int { return a.compare(b.order) })
	var size [4]byte
	var line []byte
	for _, p := range s.index {
		if _, err := s.file.ReadAt(size[:], p.at); err != nil {
			return fmt.Errorf("reading collected rows: %w", err)
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		line = slices.Grow(line[:0], n)[:n]
		if _, err := s.file.ReadAt(line, p.at+4); err != nil && err != io.EOF {
			return fmt.Errorf("reading collected rows: %w", err)
		}
		if err := fn(strings.Split(string(line), unit)); err != nil {
			return err
		}
	}
	return nil
}

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name()) // a file that remains disappears with the folder
}
