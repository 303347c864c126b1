package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// page is the document that shows what is kept, between these marks; plot is a
// picture beside it.
var (
	page = filepath.Join("docs", "performance.md")
	plot = filepath.Join(kept, "growth.svg")
)

const (
	opening = "<!-- begin of what make bench writes -->\n"
	closing = "<!-- end of what make bench writes -->\n"
)

// writeDocs writes what is kept into the document, and draws it.
func writeDocs(root string) error {
	all, err := records(root)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return err
	}
	written, err := fill(string(text), all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, page), []byte(written), 0o644); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, kept), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, plot), []byte(draw(all)), 0o644)
}

// fill replaces what is between the marks.
func fill(text string, all []record) (string, error) {
	before, rest, ok := strings.Cut(text, opening)
	_, after, also := strings.Cut(rest, closing)
	if !ok || !also {
		return "", fmt.Errorf("%s lacks the lines %q and %q", page, strings.TrimSpace(opening), strings.TrimSpace(closing))
	}
	return before + opening + "\n" + table(all) + "\n" + places(all) + closing + after, nil
}

// row is a line of the table.
type row struct {
	what string
	of   func(*record) float64 // NaN where it was not measured
}

// table shows each record as a column, and beside them how figures grow.
func table(all []record) string {
	var out strings.Builder
	out.WriteString("| |")
	for i := range all {
		fmt.Fprintf(&out, " %s machines |", count(float64(all[i].N)))
	}
	for i := 1; i < len(all); i++ {
		fmt.Fprintf(&out, " %s → %s |", count(float64(all[i-1].N)), count(float64(all[i].N)))
	}
	out.WriteString("\n|---|" + strings.Repeat("---:|", max(0, 2*len(all)-1)) + "\n")
	for _, r := range rows() {
		fmt.Fprintf(&out, "| %s |", r.what)
		if r.of == nil { // a heading
			out.WriteString(strings.Repeat(" |", max(0, 2*len(all)-1)) + "\n")
			continue
		}
		for i := range all {
			fmt.Fprintf(&out, " %s |", figure(r.of(&all[i])))
		}
		for i := 1; i < len(all); i++ {
			fmt.Fprintf(&out, " %s |", growth(r.of(&all[i-1]), r.of(&all[i])))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// places says what each record was measured on.
func places(all []record) string {
	var out strings.Builder
	for i := range all {
		r := &all[i]
		lifecycle := "no node lifecycle controller"
		if r.NodeLifecycle {
			lifecycle = "with the node lifecycle controller"
		}
		fmt.Fprintf(&out, "- %s machines: %s, %d cores (%s), %.0f GiB, %s; leases every %.0f s, %s.\n",
			count(float64(r.N)), r.Measured, r.On.Cores, r.On.CPU, r.On.MemoryGiB, r.On.Go, r.LeaseSeconds, lifecycle)
		for _, v := range r.Violations {
			fmt.Fprintf(&out, "  **Over its bound: %s.**\n", v)
		}
	}
	return out.String() + "\n"
}

// count writes a whole number with its thousands apart.
func count(n float64) string {
	digits := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + " " + digits[at:]
	}
	return digits
}

// significant is how many digits of a measured figure are shown.
const significant = 3

// figure writes a measured figure.
func figure(f float64) string {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "–"
	case f == 0:
		return "0"
	case math.Abs(f) >= 1000:
		return count(f)
	}
	return shorten(f, significant)
}

// shorten writes f with so many significant digits and no exponent, without
// zeros at the end of its fraction.
func shorten(f float64, digits int) string {
	places := 0
	if f != 0 {
		places = max(0, digits-1-int(math.Floor(math.Log10(math.Abs(f)))))
	}
	text := strconv.FormatFloat(f, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// growth says how many times as much it has become.
func growth(was, is float64) string {
	if !(was > 0) || math.IsNaN(is) {
		return ""
	}
	return "×" + shorten(is/was, 2)
}

var fraction = regexp.MustCompile(`\d+\.\d+(e[+-]\d+)?`)

// rounded shortens the fractions in JSON to what can be measured.
func rounded(text []byte) []byte {
	const digits = 4
	return fraction.ReplaceAllFunc(text, func(number []byte) []byte {
		f, err := strconv.ParseFloat(string(number), 64)
		if err != nil {
			return number
		}
		return []byte(shorten(f, digits))
	})
}
