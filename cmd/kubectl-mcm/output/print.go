// Package output prints what commands of kubectl mcm that only read have found: tables for
// people, and what kubectl's printers make for programs.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
)

// Formats for people, and that of names alone. All others are for programs.
const (
	Table = ""
	Wide  = "wide"
	Name  = "name"
)

// customColumns is kubectl get's form of a table of one's own.
const customColumns = "custom-columns="

// Flags are how a command prints. The zero value prints a table.
type Flags struct {
	Format    string
	NoHeaders bool
	// Also are formats that the command has besides.
	Also []string
}

// Add adds the flags to a command. Its --output takes the place of that of other commands.
func (f *Flags) Add(cmd *cobra.Command) {
	words := append([]string{Wide, "json", "yaml", Name}, f.Also...)
	all := append([]string{}, words...)
	all = append(all, "jsonpath=...", "go-template=...", customColumns+"...")
	cmd.Flags().StringVarP(&f.Format, "output", "o", "", "output: "+strings.Join(all, ", "))
	cmd.Flags().BoolVar(&f.NoHeaders, "no-headers", false, "print no headers")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Validate refuses formats that there are not.
func (f *Flags) Validate() error {
	if f.ForPeople() || f.Format == Name || slices.Contains(f.Also, f.Format) {
		return nil
	}
	_, err := f.printer()
	return err
}

// ForPeople reports whether the output is a table.
func (f *Flags) ForPeople() bool { return f.Format == Table || f.Format == Wide }

func (f *Flags) printer() (printers.ResourcePrinter, error) {
	if columns, ok := strings.CutPrefix(f.Format, customColumns); ok {
		return newColumns(columns, f.NoHeaders)
	}
	return genericclioptions.NewPrintFlags("").WithDefaultOutput(f.Format).ToPrinter()
}

// Print prints v, which has apiVersion and kind, as a program wants it.
func (f *Flags) Print(out io.Writer, v any) error {
	printer, err := f.printer()
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

// Headers begins a table with its headers, unless they are not wanted.
func (f *Flags) Headers(titles ...string) [][]Cell {
	if f.NoHeaders {
		return nil
	}
	return [][]Cell{Row(titles...)}
}

// Warn tells what was left out.
func Warn(out io.Writer, unread []string) {
	for _, text := range unread {
		fmt.Fprintln(out, "Warning: not read:", text)
	}
}

// columns are the columns that somebody has asked for, of the items of what is printed or, if it
// has none, of itself.
type columns struct {
	titles    []string
	values    []*jsonpath.JSONPath
	noHeaders bool
}

var errColumns = errors.New("write custom-columns=TITLE:PATH,..., " +
	"e.g. custom-columns=NAME:.object.name,REASON:.missing.reason")

// newColumns reads TITLE:PATH,....
func newColumns(text string, noHeaders bool) (*columns, error) {
	c := &columns{noHeaders: noHeaders}
	for part := range strings.SplitSeq(text, ",") {
		title, path, ok := strings.Cut(part, ":")
		if !ok || title == "" || path == "" {
			return nil, fmt.Errorf("--output: %q is no column: %w", part, errColumns)
		}
		value := jsonpath.New(title).AllowMissingKeys(true)
		path = strings.TrimPrefix(strings.Trim(path, "{}"), ".")
		if err := value.Parse("{." + path + "}"); err != nil {
			return nil, fmt.Errorf("--output: column %s: %w", title, err)
		}
		c.titles, c.values = append(c.titles, title), append(c.values, value)
	}
	return c, nil
}

// PrintObj prints the table.
func (c *columns) PrintObj(object runtime.Object, out io.Writer) error {
	content := object.(*unstructured.Unstructured).Object
	items, list := content["items"].([]any)
	if !list {
		items = []any{content}
	}
	var rows [][]Cell
	if !c.noHeaders {
		rows = append(rows, Row(c.titles...))
	}
	for _, item := range items {
		row := make([]Cell, 0, len(c.values))
		for _, value := range c.values {
			var text strings.Builder
			if err := value.Execute(&text, item); err != nil {
				return err
			}
			if text.Len() == 0 {
				text.WriteString("<none>") // as kubectl get does
			}
			row = append(row, Cell{Text: text.String()})
		}
		rows = append(rows, row)
	}
	PrintTable(out, rows)
	return nil
}

// ExitCodeError is an exit code without a failure: the command has printed what there is to know.
type ExitCodeError int

// Error is never printed.
func (e ExitCodeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// CodedError is a failure with an exit code of its own.
type CodedError struct {
	Code int
	Err  error
}

// Error is that of the cause.
func (e *CodedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CodedError) Unwrap() error { return e.Err }

// clearScreen moves to the upper left corner of a terminal and erases everything.
const clearScreen = "\x1b[H\x1b[2J"

// A Page is text that is collected before it is written, with the colours of where it goes.
type Page struct {
	bytes.Buffer
	out       io.Writer
	colourful bool
}

// NewPage returns an empty page for out.
func NewPage(out io.Writer) *Page { return &Page{out: out, colourful: colourful(out)} }

// Replace writes the page in place of the former one on a terminal, and after it elsewhere, with the
// separator between them.
func (p *Page) Replace(first bool, separator string) error {
	switch {
	case Terminal(p.out):
		separator = clearScreen
	case first:
		separator = ""
	}
	_, err := io.WriteString(p.out, separator+p.String())
	return err
}

// Terminal reports whether out is a terminal.
func Terminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

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
