package cloud

import (
	"context"
	"strings"
	"unicode"
)

// ReasonConsoleUnsupported is the reason of the error of code Invalid for a cloud whose driver
// cannot read the consoles of VMs.
const ReasonConsoleUnsupported = "ConsoleUnsupported"

// ConsoleMax is how many bytes of a console are read at most.
const ConsoleMax = 32 << 10

// A ConsoleReader is an Account that can read the serial console of a VM.
type ConsoleReader interface {
	// Console returns the end of what the VM of r has written to its serial console, as
	// ConsoleTail returns it. It is empty where the cloud has nothing of it yet: some clouds
	// show a console minutes after it was written to. The call changes nothing and does not
	// wait for more.
	//
	// Guests write what they want to their consoles: the text may contain secrets.
	// Codes: NotFound (no such VM, one that is going, or one without a console), Invalid,
	// Denied, Throttled, Unavailable, Unknown.
	Console(ctx context.Context, r Ref) (string, error)
}

// Console reads the console of a VM. An Account that is no ConsoleReader refuses that as Invalid.
func Console(ctx context.Context, a Account, r Ref) (string, error) {
	if c, ok := a.(ConsoleReader); ok {
		return c.Console(ctx, r)
	}
	return "", Errorf(Invalid, "read console", ReasonConsoleUnsupported, "the cloud's driver cannot read consoles")
}

// ConsoleTail returns the last lines of a console, at most ConsoleMax bytes. They are valid UTF-8
// without the sequences that move a terminal's cursor or set its colours, and each ends in \n. A
// first line that does not fit as a whole is left out, so that no part of a secret escapes those
// that look for all of it.
func ConsoleTail(raw string) string {
	text := plainText(raw)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if len(text) <= ConsoleMax {
		return text
	}
	_, text, _ = strings.Cut(text[len(text)-ConsoleMax-1:], "\n") // with the byte before, which may end a line
	return text
}

// plainText returns text without what controls a terminal. Lines end in \n.
func plainText(raw string) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(raw, "\uFFFD"), "\r\n", "\n")
	var b strings.Builder
	for text != "" {
		at := strings.IndexByte(text, escape)
		if at < 0 {
			at = len(text)
		}
		b.WriteString(strings.Map(printable, text[:at]))
		text = text[min(at+sequence(text[at:]), len(text)):]
	}
	return b.String()
}

// escape begins a sequence that controls a terminal.
const escape = '\x1b'

// sequence returns how many bytes such a sequence at the beginning of text has; 0 for an empty
// text. One that sets a title ends with a bell or a backslash, one of colours or positions with a
// letter; one that never ends is that of two bytes.
func sequence(text string) int {
	const shortest = 2
	switch {
	case len(text) < shortest:
		return len(text)
	case text[1] == '[':
		for i := shortest; i < len(text) && text[i] >= ' '; i++ {
			if text[i] >= '@' && text[i] <= '~' {
				return i + 1
			}
		}
	case text[1] == ']':
		line, _, _ := strings.Cut(text, "\n")
		if end := strings.IndexAny(line, "\a\\"); end > 0 {
			return end + 1
		}
	}
	return shortest
}

// printable is r if it can be shown, and -1 otherwise.
func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\r':
		return '\n' // a line that is written over
	case unicode.IsPrint(r) || r == '\uFFFD':
		return r
	}
	return -1
}
