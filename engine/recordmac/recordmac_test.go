package recordmac

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestMark(t *testing.T) {
	k, other := New(), New()
	at := Place{Series: "00/reglas", Number: 7, Code: [16]byte{1}, State: 64}
	head := []byte(`{"who":"ana","what":"rules.push"}`)
	marked := k.Mark(head, at)
	if !json.Valid(marked) || !bytes.Contains(marked, []byte(`"what":"rules.push","mark":"`+k.ID())) {
		t.Fatalf("%s", marked)
	}
	if again := k.Mark(marked, at); !bytes.Equal(again, marked) {
		t.Errorf("marked twice: %s", again)
	}
	reread, err := Parse(k.Text())
	if err != nil || reread.Check(marked, at) != Own {
		t.Errorf("the key read again does not know its mark: %v", err)
	}
	if k.Check(other.Mark(marked, at), at) != Other || k.Check(head, at) != None || other.Check(marked, at) != Other {
		t.Error("another's mark, or none, is taken for this box's")
	}
	var none *Key
	if !bytes.Equal(none.Mark(head, at), head) || none.Check(marked, at) != Other || none.Check(head, at) != None {
		t.Error("no key makes or knows a mark")
	}
	// Every bit of the head, and every part of the place, is covered.
	for i := range marked {
		for bit := range 8 {
			bent := bytes.Clone(marked)
			bent[i] ^= 1 << bit
			if k.Check(bent, at) == Own {
				t.Fatalf("own with bit %d of byte %d changed: %s", bit, i, bent)
			}
		}
	}
	for name, place := range map[string]Place{"series": {"01/reglas", 7, at.Code, 64}, "number": {at.Series, 8, at.Code,
		64},
		"code": {at.Series, 7, [16]byte{2}, 64}, "state": {at.Series, 7, at.Code, 65}} {
		if k.Check(marked, place) != Altered {
			t.Errorf("a record moved to another %s keeps its mark", name)
		}
	}
	for _, text := range []string{"", "00", "zz", string(New().Text()) + "00"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}
