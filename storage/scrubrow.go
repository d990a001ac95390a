package storage

import "time"

// scrubRow is what scrubbing has come to: version u8 · at i64, Unix ns, when a pass last ended · segments u64 read in it ·
// found u64 · mended u64, bad ones since the copy began.
type scrubRow struct {
	At                      time.Time
	Segments, Found, Mended uint64
}

func (r *scrubRow) encode() []byte {
	b := be.AppendUint64([]byte{rowVersion}, uint64(r.At.UnixNano()))
	return be.AppendUint64(be.AppendUint64(be.AppendUint64(b, r.Segments), r.Found), r.Mended)
}

func decodeScrub(b []byte) (r scrubRow, err error) {
	c := cursor{b: b}
	c.version()
	r.At = time.Unix(0, int64(c.u64())).UTC()
	r.Segments, r.Found, r.Mended = c.u64(), c.u64(), c.u64()
	return r, c.end("scrub")
}
