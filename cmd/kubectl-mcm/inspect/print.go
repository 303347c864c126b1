package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Formats for people, and that of names alone. All others are those of kubectl's printers.
const (
	formatTable = ""
	formatWide  = "wide"
	formatName  = "name"
)

// validate refuses formats that no printer has.
func (f *flags) validate() error {
	switch f.output {
	case formatTable, formatWide, formatName:
		return nil
	}
	_, err := f.printFlags().ToPrinter()
	return err
}

func (f *flags) printFlags() *genericclioptions.PrintFlags {
	return genericclioptions.NewPrintFlags("").WithDefaultOutput(f.output)
}

// forPeople reports whether the output is a table.
func (f *flags) forPeople() bool { return f.output == formatTable || f.output == formatWide }

// print prints v, which has apiVersion and kind, as a program wants it.
func (f *flags) print(out io.Writer, v any) error {
	printer, err := f.printFlags().ToPrinter()
	if err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, out)
}

// colour is how a cell is shown on a terminal.
type colour string

// The colours; plain is the default one.
const (
	plain  colour = ""
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	red    colour = "\x1b[31m"
	reset         = "\x1b[0m"
)

// cell is a part of a row.
type cell struct {
	text   string
	colour colour
}

// table prints rows in columns; every row has as many cells as the first one.
func table(out io.Writer, rows [][]cell, colours bool) {
	if len(rows) == 0 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(paint(c.text, c.colour, colours))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+3))
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

func paint(text string, c colour, colours bool) string {
	if !colours || c == plain || text == "" {
		return text
	}
	return string(c) + text + reset
}

// colourful reports whether out is a terminal whose user has not asked for plain text.
func colourful(out io.Writer) bool {
	file, ok := out.(*os.File)
	_, refused := os.LookupEnv("NO_COLOR")
	return ok && !refused && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// row makes cells without colour.
func row(texts ...string) []cell {
	cells := make([]cell, 0, len(texts))
	for _, t := range texts {
		cells = append(cells, cell{text: t})
	}
	return cells
}

// age is how long ago t was, as kubectl prints it.
func age(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
