package storage

// repairMeter tells how far a repair has come: the first half is reading the media, twice, the second is walking the new store.
type repairMeter struct {
	meter
	rows int64 // bytes
}

// expect says how much there is to read, once the media are known. The rows are larger than the files that hold them: the first
// half may stand still before it ends.
func (a *assembly) expect() {
	total := int64(1)
	add := func(dir string) {
		if _, size, err := listFiles(a.o.FS, dir); err == nil { // what cannot be listed is not read either
			total += size
		}
	}
	add(a.o.Dir)
	if a.copy != nil {
		add(a.o.FS.PathDir(segmentPath(a.o.FS, a.from.Copy, 1)))
	}
	for _, dir := range a.from.Backups {
		add(a.o.FS.PathJoin(dir, backupStore))
	}
	a.meter.total = 4 * total
}

// read notes bytes of a row.
func (m *repairMeter) read(bytes int) {
	m.rows += int64(bytes)
	if m.total > 0 {
		m.done = min(m.rows, m.total/2)
		m.tell()
	}
}
