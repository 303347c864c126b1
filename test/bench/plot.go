package main

import (
	"fmt"
	"math"
	"strings"
)

// The picture: four panels, both axes of each logarithmic.
const (
	panelWidth, panelHeight = 420, 290
	left, right             = 56, 118 // of a panel, around its axes; names of lines stand right
	top, bottom             = 34, 36
)

// line is a figure over the number of machines.
type line struct {
	name, colour string
	of           func(*record) float64
}

// panel shows some lines.
type panel struct {
	title string
	lines []line
}

const (
	blue, orange, green, grey = "#2563b0", "#c2570c", "#2e7d32", "#777777"
)

func panels() []panel {
	return []panel{
		{"seconds", []line{
			{"all made", blue, func(r *record) float64 { return r.Create.Seconds }},
			{"all rolled (≤ 1 000)", orange, func(r *record) float64 { return r.Roll.Seconds }},
			{"manager starts", green, func(r *record) float64 { return r.Startup.Seconds }},
			{"bound of the start", grey, constant(startupMost)},
		}},
		{"requests and cloud calls a machine", []line{
			{"bound, made", grey, constant(requestsInTen)},
			{"requests, made", blue, func(r *record) float64 { return r.Create.RequestsPerMachine }},
			{"requests, rolled", orange, func(r *record) float64 { return r.Roll.RequestsPerMachine }},
			{"calls, made", green, func(r *record) float64 { return r.Create.CloudCallsPerMachine }},
		}},
		{"memory of the manager, MiB", []line{
			{"most resident", blue, func(r *record) float64 { return r.Memory.PeakMiB }},
			{"live objects", green, func(r *record) float64 { return r.Memory.FullHeapMiB }},
			{"60 for 1 000", grey, func(r *record) float64 { return float64(perThousandMost*r.N) / 1000 }},
		}},
		{"milliseconds of a reconcile while all are made, p99", []line{
			{"Machine", blue, func(r *record) float64 { return milliseconds(&r.Create, "machine").P99 }},
			{"MachineSet", orange, func(r *record) float64 { return milliseconds(&r.Create, "machineset").P99 }},
			{"MachineDeployment", green, func(r *record) float64 { return milliseconds(&r.Create, "machinedeployment").P99 }},
			{"Node", grey, func(r *record) float64 { return milliseconds(&r.Create, "node").P99 }},
		}},
	}
}

// constant is a line of a bound, which no record changes.
func constant(bound float64) func(*record) float64 {
	return func(*record) float64 { return bound }
}

// draw returns the picture, SVG.
func draw(all []record) string {
	const columns = 2
	ps := panels()
	rows := (len(ps) + columns - 1) / columns
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="11">`+"\n", columns*panelWidth, rows*panelHeight)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="white"/>`+"\n", columns*panelWidth, rows*panelHeight)
	for i, p := range ps {
		if len(all) > 0 {
			fmt.Fprintf(&out, `<g transform="translate(%d,%d)">`+"\n%s</g>\n", i%columns*panelWidth, i/columns*panelHeight,
				p.draw(all))
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// draw returns a panel.
func (p panel) draw(all []record) string {
	x := newAxis(left, panelWidth-right, spread(all, []line{{of: func(r *record) float64 { return float64(r.N) }}}))
	y := newAxis(panelHeight-bottom, top, spread(all, p.lines))
	var out strings.Builder
	fmt.Fprintf(&out, `<text x="%d" y="18" font-size="13" font-weight="bold">%s</text>`+"\n", left, p.title)
	for _, at := range x.decades() {
		fmt.Fprintf(&out, `<line x1="%[1]s" y1="%[2]d" x2="%[1]s" y2="%[3]d" stroke="#ddd"/>`+
			`<text x="%[1]s" y="%[4]d" text-anchor="middle">%[5]s</text>`+
			"\n", x.place(at), top, panelHeight-bottom, panelHeight-bottom+16, figure(at))
	}
	for _, at := range y.decades() {
		fmt.Fprintf(&out, `<line x1="%[1]d" y1="%[2]s" x2="%[3]d" y2="%[2]s" stroke="#ddd"/>`+
			`<text x="%[4]d" y="%[2]s" text-anchor="end" dominant-baseline="middle">%[5]s</text>`+
			"\n", left, y.place(at), panelWidth-right, left-6, figure(at))
	}
	fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="middle">machines</text>`+"\n", (left+panelWidth-right)/2,
		panelHeight-6)
	names := newLabels()
	for _, l := range p.lines {
		out.WriteString(l.draw(all, x, y, names))
	}
	return out.String()
}

// span is the smallest and the largest figure.
type span struct{ smallest, largest float64 }

// spread returns the span of lines, 1 to 1 if they have no figure.
func spread(all []record, lines []line) span {
	s := span{math.Inf(1), 0}
	for _, l := range lines {
		for i := range all {
			if f := l.of(&all[i]); f > 0 {
				s = span{min(s.smallest, f), max(s.largest, f)}
			}
		}
	}
	if s.largest == 0 {
		return span{1, 1}
	}
	return s
}

// draw returns a line with a dot for each record, and its name behind the last.
func (l line) draw(all []record, x, y axis, names *labels) string {
	var points, dots strings.Builder
	last := math.NaN()
	for i := range all {
		f := l.of(&all[i])
		if !(f > 0) {
			continue
		}
		last = f
		n := float64(all[i].N)
		fmt.Fprintf(&points, "%s,%s ", x.place(n), y.place(f))
		fmt.Fprintf(&dots, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`, x.place(n), y.place(f), l.colour)
	}
	if math.IsNaN(last) {
		return ""
	}
	return fmt.Sprintf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="1.6"/>%s`+
		`<text x="%d" y="%.1f" fill="%s" dominant-baseline="middle">%s</text>`+"\n",
		strings.TrimSpace(points.String()), l.colour, dots.String(), panelWidth-right+8, names.room(
			y.at(last)), l.colour, l.name)
}

// axis maps figures to places, logarithmically, over whole decades.
type axis struct {
	from, to    float64 // places
	first, last int     // powers of ten
}

func newAxis(from, to int, s span) axis {
	a := axis{float64(from), float64(to), int(math.Floor(math.Log10(s.smallest))), int(math.Ceil(math.Log10(s.largest)))}
	a.last = max(a.last, a.first+1)
	return a
}

func (a axis) at(f float64) float64 {
	return a.from + (a.to-a.from)*(math.Log10(f)-float64(a.first))/float64(a.last-a.first)
}

func (a axis) place(f float64) string { return fmt.Sprintf("%.1f", a.at(f)) }

// decades are the powers of ten on an axis.
func (a axis) decades() []float64 {
	var all []float64
	for power := a.first; power <= a.last; power++ {
		all = append(all, math.Pow10(power))
	}
	return all
}

// labels keeps names of lines from lying on each other.
type labels struct{ taken []float64 }

func newLabels() *labels { return &labels{} }

// room returns the free place that is next to y.
func (l *labels) room(y float64) float64 {
	const apart = 13.0
	free := func(at float64) bool {
		for _, other := range l.taken {
			if math.Abs(at-other) < apart {
				return false
			}
		}
		return true
	}
	for step := 0.0; ; step++ {
		for _, at := range []float64{y + step, y - step} {
			if free(at) {
				l.taken = append(l.taken, at)
				return at
			}
		}
	}
}
