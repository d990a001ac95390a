package storage

import (
	"regexp"
	"slices"
	"strings"
)

// Pebble lists a store's tables in its manifest, and a marker says which manifest counts. Without them it opens nothing, in words
// of its own; the tables and the log are there all the same.

// listAdvice is what helps then.
const listAdvice = "dtectl repair makes the store anew of its tables, its log and the other media"

// tableLists are the files in which Pebble lists its tables; nil when there is no trace of a store.
func (o *Options) tableLists() (list []string) {
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") {
			list = append(list, name)
		}
	}
	if list == nil && slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") }) {
		list = []string{"MANIFEST-…, which is gone"}
	}
	return list
}

var (
	inManifest   = regexp.MustCompile(`MANIFEST-\d+`)
	unknownTable = regexp.MustCompile(`file (\d+) \(type sstable\) unknown`)
	cutTable     = regexp.MustCompile(`(\d+): object size mismatch .*: (\d+) \(disk\) != (\d+) \(MANIFEST\)`)
)

// damagedLog names the log that Pebble could not replay, "" when it is none of this. Pebble's error names none.
func (o *Options) damagedLog(err error) string {
	if err == nil || !strings.Contains(err.Error(), "replaying WAL") {
		return ""
	}
	names, _ := o.FS.List(o.Dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	slices.Sort(names)
	return "its log, " + strings.Join(names, " or ") + ", cannot be read"
}

// damagedList says in plain words what Pebble misses, "" when it is none of this. Pebble's errors are told apart by their text
// alone.
func damagedList(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if found := unknownTable.FindStringSubmatch(text); found != nil {
		return "its list of tables names " + found[1] + ".sst, which is not there"
	}
	if found := cutTable.FindStringSubmatch(text); found != nil {
		return found[1] + ".sst is " + found[2] + " bytes long, and its list of tables says " + found[3]
	}
	if name := inManifest.FindString(text); name != "" {
		return "its list of tables, " + name + ", cannot be read"
	}
	if strings.Contains(text, "is not pristine") {
		return "marker.format-version…, which says how its tables are to be read, is gone"
	}
	return ""
}
