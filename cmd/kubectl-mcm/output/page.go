package output

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
)

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
