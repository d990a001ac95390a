package contingency

import (
	"slices"
	"testing"
	"time"

	"dtegate/engine/record"
)

// TestCountIn: documents are counted by type, establishment and point of sale, with the first and the last number of
// each.
func TestCountIn(t *testing.T) {
	var counts []ReportCount
	for _, number := range []string{"DTE-01-M001P001-000000000000007", "DTE-01-M001P001-000000000000005",
		"DTE-03-M001P001-000000000000001",
		"DTE-01-M001P002-000000000000009", "DTE-01-S002P001-000000000000002", "DTE-03-S002P002-000000000000003",
		"DTE-01-M001P001-000000000000006"} {
		counts = countIn(counts, &record.Head{Document: number[4:6], ControlNumber: number})
	}
	want := []ReportCount{
		{Document: "01", Establishment: "M001", PointOfSale: "P001", Documents: 3,
			First: "DTE-01-M001P001-000000000000005", Last: "DTE-01-M001P001-000000000000007"},
		{Document: "03", Establishment: "M001", PointOfSale: "P001", Documents: 1,
			First: "DTE-03-M001P001-000000000000001", Last: "DTE-03-M001P001-000000000000001"},
		{Document: "01", Establishment: "M001", PointOfSale: "P002", Documents: 1,
			First: "DTE-01-M001P002-000000000000009", Last: "DTE-01-M001P002-000000000000009"},
		{Document: "01", Establishment: "S002", PointOfSale: "P001", Documents: 1,
			First: "DTE-01-S002P001-000000000000002", Last: "DTE-01-S002P001-000000000000002"},
		{Document: "03", Establishment: "S002", PointOfSale: "P002", Documents: 1,
			First: "DTE-03-S002P002-000000000000003", Last: "DTE-03-S002P002-000000000000003"},
	}
	if !slices.Equal(counts, want) {
		t.Errorf("%+v", counts)
	}
}

// TestStretches: the contingencies as MH counts them.
func TestStretches(t *testing.T) {
	at := func(h float64) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(h * float64(time.Hour))) }
	period := func(began, ended float64) *Period {
		p := &Period{Began: at(began)}
		if ended > 0 {
			p.Ended = at(ended)
		}
		return p
	}
	l := law{report: 72 * time.Hour}
	for name, c := range map[string]struct {
		periods []*Period
		now     float64
		want    []bool // too long, by stretch
	}{
		"nothing":                    {nil, 0, nil},
		"three days to the second":   {[]*Period{period(0, 72)}, 100, []bool{false}},
		"a second more":              {[]*Period{period(0, 72+1./3600)}, 100, []bool{true}},
		"going on":                   {[]*Period{period(0, 0)}, 73, []bool{true}},
		"three in a row":             {[]*Period{period(0, 30), period(40, 60), period(65, 73)}, 100, []bool{true}},
		"the gap is a day":           {[]*Period{period(0, 50), period(74, 100)}, 100, []bool{false, false}},
		"going on after a short gap": {[]*Period{period(0, 50), period(60, 0)}, 80, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			list := stretches(c.periods, 24*time.Hour)
			if len(list) != len(c.want) {
				t.Fatalf("%d stretches, want %d", len(list), len(c.want))
			}
			for i, s := range list {
				if got := s.tooLong(l, at(c.now)); got != c.want[i] {
					t.Errorf("stretch %d: too long is %v", i, got)
				}
			}
		})
	}
}

// TestNeedingReport: of several contingencies the report that is asked for is the oldest one that MH lacks, and a report
// of one contingency does not end the request for another.
func TestNeedingReport(t *testing.T) {
	at := func(h int) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(h) * time.Hour) }
	noted := &ReportNote{Reference: "DGII-1"}
	contingency := func(began, hours int, note *ReportNote) *stretch {
		s := &stretch{began: at(began), periods: []*Period{{Began: at(began), Report: note}}}
		if hours > 0 {
			s.ended = at(began + hours)
		}
		return s
	}
	joined := func(notes ...*ReportNote) *stretch { // long, of as many periods
		s := &stretch{began: at(0), ended: at(80)}
		for i, note := range notes {
			s.periods = append(s.periods, &Period{Began: at(20 * i), Ended: at(20*i + 10), Report: note})
		}
		return s
	}
	const short, long, open = 10, 80, 0
	for name, c := range map[string]struct {
		list []*stretch
		want int // index; -1: none
	}{
		"nothing":                        {nil, -1},
		"short":                          {[]*stretch{contingency(0, short, nil)}, -1},
		"two long ones":                  {[]*stretch{contingency(0, long, nil), contingency(200, long, nil)}, 0},
		"two long ones, the first noted": {[]*stretch{contingency(0, long, noted), contingency(200, long, nil)}, 1},
		"two long ones, both noted":      {[]*stretch{contingency(0, long, noted), contingency(200, long, noted)}, 1},
		"its first period noted":         {[]*stretch{joined(noted, nil, nil), contingency(200, long, nil)}, 1},
		"its last period noted":          {[]*stretch{joined(nil, nil, noted), contingency(200, long, nil)}, 1},
		"no period noted":                {[]*stretch{joined(nil, nil, nil), contingency(200, long, nil)}, 0},
		"long, and another continues":    {[]*stretch{contingency(0, long, nil), contingency(390, open, nil)}, 0},
		"noted, and another continues":   {[]*stretch{contingency(0, long, noted), contingency(390, open, nil)}, 1},
		"long, and a short one later":    {[]*stretch{contingency(0, long, nil), contingency(200, short, nil)}, 0},
	} {
		got := slices.Index(c.list, needingReport(c.list, law{report: 72 * time.Hour}, at(400)))
		if got != c.want {
			t.Errorf("%s: contingency %d is asked about, not %d", name, got, c.want)
		}
	}
}
