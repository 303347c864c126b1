package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Colour is how a cell is shown on a terminal.
type Colour string

// The colours; Plain is the default one.
const (
	Plain  Colour = ""
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Red    Colour = "\x1b[31m"
	reset         = "\x1b[0m"
)

// Cell is a part of a row.
type Cell struct {
	Text   string
	Colour Colour
}

// PrintTable prints rows in columns; every row has as many cells as the first one.
func PrintTable(out io.Writer, rows [][]Cell) { printTable(out, rows, colourful(out)) }

func printTable(out io.Writer, rows [][]Cell, colours bool) {
	if len(rows) == 0 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(paint(c.Text, c.Colour, colours))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text)+3))
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// Paint colours text for a terminal.
func Paint(out io.Writer, text string, c Colour) string { return paint(text, c, colourful(out)) }

func paint(text string, c Colour, colours bool) string {
	if !colours || c == Plain || text == "" {
		return text
	}
	return string(c) + text + reset
}

// colourful reports whether out is a terminal whose user has not asked for plain text.
func colourful(out io.Writer) bool {
	if page, ok := out.(*Page); ok {
		return page.colourful
	}
	_, refused := os.LookupEnv("NO_COLOR")
	return !refused && os.Getenv("TERM") != "dumb" && Terminal(out)
}

// Row makes cells without colour.
func Row(texts ...string) []Cell {
	cells := make([]Cell, 0, len(texts))
	for _, t := range texts {
		cells = append(cells, Cell{Text: t})
	}
	return cells
}

// Age is how long ago t was, as kubectl prints it.
func Age(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// Dash stands for what is empty.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
