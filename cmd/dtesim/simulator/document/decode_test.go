package document

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// The parser reads what encoding/json reads, apart from what it refuses on purpose.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,-2.5e+3,"x\n\u00e1\"\\",null,true,false,{"b":{}}],"":""}`,
		" {\t\"a\" :\r\n1 , \"b\":[ ] } ",
		`{"a":1,"a":2}`, `[1]`, `{"a":"\ud83d\ude00 \udc00"}`, `{"n":1e99999}`, `{"a":[[[[]]]]}`, `{"a":1}x`,
		`{"a":"\\"}`, ``, `{`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data)
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want map[string]any
		if theirs := dec.Decode(&want); err == nil && (theirs != nil || !json.Valid(data)) {
			t.Fatalf("%q is not JSON", data)
		}
		if err == nil && !reflect.DeepEqual(map[string]any(got), want) {
			t.Fatalf("%q: %v, want %v", data, got, want)
		}
	})
}
