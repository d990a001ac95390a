package page

import (
	"fmt"

	"dtegate/engine/register"
)

// chart is the day by the hour, as stacked bars. Its unit is a point of the drawing, which is chartWide by chartHigh.
type chart struct {
	Wide, High int
	Bars       []bar
	Hours      []tick // below the bars
	Lines      []tick // of the scale
	Now        int    // x of the hour that goes on
	Label      string // for who does not see it
}

type bar struct {
	Title string
	Parts []part
}

// part is a piece of a bar; Kind is a class: normal, contingency, rejected.
type part struct {
	Kind       string
	X, Y, W, H float64
}

type tick struct {
	At   float64
	Text string
}

const (
	chartWide, chartHigh = 360, 150
	chartLeft, chartFoot = 36, 20 // room for the scale and for the hours
	chartTop             = 8
)

func newChart(lang string, day register.Today, now int) *chart {
	c := &chart{Wide: chartWide, High: chartHigh}
	most, best, total := 0, 0, 0
	for h, x := range day.Hours {
		n := x.Normal + x.Contingency + x.Rejected
		total += n
		if n > most {
			most, best = n, h
		}
	}
	top := ceiling(most)
	height := float64(chartHigh - chartFoot - chartTop)
	y := func(n int) float64 { return chartTop + height*(1-float64(n)/float64(top)) }
	step := float64(chartWide-chartLeft) / 24
	for h, x := range day.Hours {
		left := chartLeft + float64(h)*step
		if h%3 == 0 {
			c.Hours = append(c.Hours, tick{left + step/2, fmt.Sprintf("%02d", h)})
		}
		if h == now {
			c.Now = int(left)
		}
		if x == (register.Hour{}) {
			continue
		}
		b := bar{Title: fmt.Sprintf("%02d:00–%02d:59 · %s", h, h, tally(lang, x))}
		below := 0
		for _, p := range []struct {
			kind string
			n    int
		}{{"normal", x.Normal}, {"contingency", x.Contingency}, {"rejected", x.Rejected}} {
			if p.n > 0 {
				b.Parts = append(b.Parts, part{Kind: p.kind, X: left + 1.5, Y: y(below + p.n), W: step - 3, H: max(1, y(below)-y(below+p.n))})
				below += p.n
			}
		}
		c.Bars = append(c.Bars, b)
	}
	for _, n := range []int{0, top / 2, top} {
		c.Lines = append(c.Lines, tick{y(n), count(n)})
	}
	c.Label = fmt.Sprintf("%s: %s.", say(lang, "today"), count(total))
	if total > 0 {
		c.Label += fmt.Sprintf(" %s: %02d:00, %s.", say(lang, "chart.peak"), best, count(most))
	}
	return c
}

// tally says what an hour holds, leaving out what it has none of.
func tally(lang string, h register.Hour) string {
	s := ""
	for _, p := range []struct {
		key string
		n   int
	}{{"normal", h.Normal}, {"contingency", h.Contingency}, {"rejected", h.Rejected}} {
		if p.n > 0 {
			if s != "" {
				s += ", "
			}
			s += count(p.n) + " " + say(lang, "chart."+p.key)
		}
	}
	return s
}

// ceiling is the even, round number that a scale ends at.
func ceiling(n int) int {
	for _, top := range []int{2, 4, 6, 8} {
		if top >= n {
			return top
		}
	}
	for unit := 1; ; unit *= 10 {
		for _, m := range []int{10, 12, 16, 20, 24, 30, 40, 50, 60, 80} {
			if unit*m >= n {
				return unit * m
			}
		}
	}
}
