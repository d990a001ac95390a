package page

import (
	"os"
	"testing"
)

func TestDump(t *testing.T) {
	dir := os.Getenv("DUMP")
	if dir == "" {
		t.Skip()
	}
	for name := range overviews() {
		for _, lang := range []string{"es", "en"} {
			os.WriteFile(dir+"/"+name+"."+lang+".html", renderStatus(lang, overviews()[name]), 0o644)
		}
	}
}
