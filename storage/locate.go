package storage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
)

// Located is a document that cannot be read completely in a damaged store, and the media that hold it. Consecutive numbers that
// no medium knows are one Located.
type Located struct {
	Affected
	Media []Holding // the best first; empty: none of those that were asked
}

// Holding is a document in one medium, each byte of it proven by a journal.
type Holding struct {
	Medium string // as RepairSource.Name; "archive" for what RepairFrom.Part returned
	Older  bool   // the medium has an earlier state of the document: a journal names a later one
}

// Locate finds the documents that Check named, in the media from which Repair would take them, and changes nothing. It reads
// each medium twice, with the reader of Repair. It searches at most MaxProblems documents, and returns the rest of the list
// without media.
//
// The second result names what cannot be read of each medium. Errors: ErrInUse, ErrNoStore, or ErrCorrupt if nothing shows
// which store this is.
func Locate(ctx context.Context, from RepairFrom, list []Affected, o Options) (_ []Located, _ []RepairSource, err error) {
	if err := o.setDefaults(); err != nil {
		return nil, nil, err
	}
	m := newMedia(&o, from)
	if err := m.openSources(); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, m.own.close()) }()
	if m.own.db != nil {
		if id, err := get(m.own.db, keyStore); err == nil && len(id) == 16 {
			m.id = [16]byte(id)
		}
	}
	if err := m.findIdentity(); err != nil {
		return nil, nil, err
	}
	closers, err := m.others()
	defer func() {
		for _, c := range closers {
			_ = c() // they were only read
		}
	}()
	if err != nil {
		return nil, nil, err
	}
	l := &locator{media: m, names: make(map[uint32]string), byID: make(map[uint64][]*sought), proof: newProof()}
	l.want(list)
	if err := l.search(ctx); err != nil {
		return nil, nil, err
	}
	return l.located(), m.said.Sources, nil
}

// locator searches media for documents.
type locator struct {
	*media
	codes map[Code]Affected // the sought documents
	spans []Affected        // sought numbers whose codes are not known
	rest  []Affected        // too many: not searched
	names map[uint32]string
	byID  map[uint64][]*sought // ids are used again where a history went another way
	proof *proof
}

// sought is a document that some medium's journal names.
type sought struct {
	id, number uint64
	sequence   uint32
	code       Code
	newest     uint32          // revision
	parts      map[string]bool // names
	entry      *entryRow       // the newest that a medium holds
	held       []*holding
}

// holding is what one medium has of a document.
type holding struct {
	medium   string
	revision uint32
	wants    uint32 // parts
	parts    map[string]bool
}

// want divides the list into documents, spans and what is too much.
func (l *locator) want(list []Affected) {
	l.codes = make(map[Code]Affected)
	room := uint64(MaxProblems)
	for _, a := range list {
		switch n := a.To - a.From + 1; {
		case room == 0:
			l.rest = append(l.rest, a)
		case a.Code != Code{}:
			l.codes[a.Code] = a
			room--
		case n > room:
			tail := a
			a.To, tail.From = a.From+room-1, a.From+room
			l.spans, l.rest = append(l.spans, a), append(l.rest, tail)
			room = 0
		default:
			l.spans = append(l.spans, a)
			room -= n
		}
	}
}

func (l *locator) search(ctx context.Context) error {
	for _, s := range l.sources {
		l.begin() // copyRows says there how far its series got
		if err := s.rows(ctx, l.name, l.unreadable(s.name)); err != nil {
			return err
		}
		for _, p := range l.reached.Series {
			l.noteName(p.Sequence, p.Name)
		}
	}
	l.keepSought()
	for _, s := range l.sources {
		l.begin()
		err := s.rows(ctx, func(key, value []byte) error { return l.hold(s.name, key, value) }, l.unreadable(s.name))
		if err != nil {
			return err
		}
	}
	return l.askArchive(ctx)
}

func (l *locator) noteName(sequence uint32, name string) {
	if name != "" && l.names[sequence] == "" {
		l.names[sequence] = name
	}
}

// name takes series' names in, and what the journals say of documents that may be sought.
func (l *locator) name(key, value []byte) error {
	switch {
	case key[0] == tableSeries:
		if row, err := decodeSeries(value); err == nil {
			l.noteName(row.Sequence, string(key[1:]))
		}
	case key[0] == tableJournal && len(key) == 13:
		k, err := decodeLink(value)
		if err != nil || k.Op == opSkip {
			return nil
		}
		if _, ok := l.codes[k.Code]; !ok && l.span(k.Number, "") == nil {
			return nil
		}
		s := l.document(k.ID, k.Code)
		s.sequence, s.number, s.newest = be.Uint32(key[1:]), k.Number, max(s.newest, k.Revision)
		for _, d := range k.Parts {
			s.parts[d.Name] = true
		}
		l.proof.link(key, &k)
	}
	return nil
}

// span is the sought span that holds a number, of one series, or of any when series is empty.
func (l *locator) span(number uint64, series string) *Affected {
	for i, a := range l.spans {
		if a.From <= number && number <= a.To && (series == "" || a.Series == series) {
			return &l.spans[i]
		}
	}
	return nil
}

func (l *locator) document(id uint64, code Code) *sought {
	for _, s := range l.byID[id] {
		if s.code == code {
			return s
		}
	}
	s := &sought{id: id, code: code, parts: make(map[string]bool)}
	l.byID[id] = append(l.byID[id], s)
	return s
}

// keepSought drops documents of other series that have a sought number. Every series has its name by now.
func (l *locator) keepSought() {
	for id, list := range l.byID {
		l.byID[id] = slices.DeleteFunc(list, func(s *sought) bool {
			_, ok := l.codes[s.code]
			return !ok && l.span(s.number, l.seriesName(s.sequence)) == nil && l.span(s.number, namelessSeries(s.sequence)) == nil
		})
	}
}

func (l *locator) seriesName(sequence uint32) string {
	return cmp.Or(l.names[sequence], namelessSeries(sequence))
}

// hold notes a row of a sought document that a journal proves.
func (l *locator) hold(medium string, key, value []byte) error {
	switch {
	case key[0] == tableEntry && len(key) == 9:
		e, err := decodeEntry(be.Uint64(key[1:]), value)
		if err != nil || l.proof.entry(&e, value) != proven {
			return nil
		}
		for _, s := range l.byID[e.ID] {
			if s.code != e.Code {
				continue
			}
			if h := s.in(medium); h.revision < e.Revision {
				h.revision, h.wants = e.Revision, e.Parts
			}
			if s.entry == nil || s.entry.Revision < e.Revision {
				s.entry = &e
			}
		}
	case key[0] == tablePart && len(key) > 9:
		id, name := be.Uint64(key[1:]), string(key[9:])
		if len(l.byID[id]) == 0 || l.proof.part(id, name, value) != proven {
			return nil
		}
		for _, s := range l.byID[id] {
			s.in(medium).parts[name] = true
		}
	}
	return nil
}

func (s *sought) in(medium string) *holding {
	for _, h := range s.held {
		if h.medium == medium {
			return h
		}
	}
	h := &holding{medium: medium, parts: make(map[string]bool)}
	s.held = append(s.held, h)
	return h
}

// archiveMedium is the name of what RepairFrom.Part asks.
const archiveMedium = "archive"

// askArchive asks elsewhere for the documents whose record some medium holds: the record tells where to ask.
func (l *locator) askArchive(ctx context.Context) error {
	if l.from.Part == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(l.byID)) {
		for _, s := range l.byID[id] {
			if s.entry == nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(s.parts)) {
				data, err := l.from.Part(ctx, s.entry.Entry, name)
				if err != nil {
					l.unreadable(archiveMedium)(err.Error())
				} else if data != nil && l.proof.part(id, name, data) == proven {
					h := s.in(archiveMedium)
					h.revision, h.parts[name] = s.newest, true // its signed form, which no later state alters
				}
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// located is the list, document by document where some medium names them.
func (l *locator) located() (list []Located) {
	type place struct {
		series string
		number uint64
	}
	numbers := make(map[place]bool)
	for _, id := range slices.Sorted(maps.Keys(l.byID)) {
		for _, s := range l.byID[id] {
			series := l.seriesName(s.sequence)
			what := l.codes[s.code].What
			if a := cmp.Or(l.span(s.number, series), l.span(s.number, namelessSeries(s.sequence))); what == "" && a != nil {
				what = a.What
				numbers[place{a.Series, s.number}] = true
			}
			delete(l.codes, s.code)
			d := Located{Affected: Affected{Series: series, From: s.number, To: s.number, Code: s.code, What: what}}
			for _, h := range s.held {
				if h.revision > 0 && uint32(len(h.parts)) >= h.wants {
					d.Media = append(d.Media, Holding{h.medium, h.revision < s.newest})
				}
			}
			slices.SortStableFunc(d.Media, func(a, b Holding) int {
				switch {
				case a.Older == b.Older:
					return 0
				case a.Older:
					return 1
				}
				return -1
			})
			list = append(list, d)
		}
	}
	for _, a := range l.spans {
		for n := a.From; n <= a.To; n++ {
			if numbers[place{a.Series, n}] {
				continue
			}
			if i := len(list) - 1; i >= 0 && list[i].Code == (Code{}) && list[i].Series == a.Series && list[i].To+1 == n {
				list[i].To = n
				continue
			}
			list = append(list, Located{Affected: Affected{Series: a.Series, From: n, To: n, What: a.What}})
		}
	}
	for _, a := range append(slices.Collect(maps.Values(l.codes)), l.rest...) { // no journal names them; too many
		list = append(list, Located{Affected: a})
	}
	slices.SortStableFunc(list, func(a, b Located) int { return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.From, b.From)) })
	return list
}
