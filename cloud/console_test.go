package cloud_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func TestConsoleTail(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1023) + "\n"
	for name, c := range map[string]struct{ reason, raw, want string }{
		"Empty":    {"A console that shows nothing yet is no line.", "", ""},
		"NoEnd":    {"A guest that hangs has not ended its line.", "booting", "booting\n"},
		"Colours":  {"systemd writes colours.", "[\x1b[0;32m  OK  \x1b[0m] Started.\r\n", "[  OK  ] Started.\n"},
		"Title":    {"A title of a terminal would be one of the reader's.", "a\x1b]0;title\ab\n", "ab\n"},
		"NeverEnd": {"A sequence that never ends hides no other lines.", "a\x1b]0;title\nb\x1b[\nc\x1b", "a0;title\nb\nc\n"},
		"Over":     {"What was written over is a line of its own.", "10%\r20%\n", "10%\n20%\n"},
		"NoText":   {"Firmware writes what is no UTF-8.", "a\xff\x00\b\n", "a\uFFFD\n"},
		"Most":     {"All of what fits is kept.", strings.Repeat(line, 32), strings.Repeat(line, 32)},
		"More": {
			"Of what does not fit the end is kept, in whole lines: half of a secret would escape those that look for it.",
			"first\n" + strings.Repeat(line, 31) + "password\n" + line, strings.Repeat(line, 30) + "password\n" + line,
		},
		"Long": {"A line that does not fit is left out.", strings.Repeat("x", 40<<10) + "\nlast\n", "last\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := cloud.ConsoleTail(c.raw)
			if got != c.want {
				t.Errorf("got %q, want %q\nbecause: %s", got, c.want, c.reason)
			}
			if again := cloud.ConsoleTail(got); again != got {
				t.Errorf("the tail of a tail is %q, want the same", again)
			}
		})
	}
}

// TestConsoleOfAPlainAccount: a driver without consoles is one that says so.
func TestConsoleOfAPlainAccount(t *testing.T) {
	t.Parallel()
	_, err := cloud.Console(t.Context(), struct{ cloud.Account }{}, cloud.Ref{})
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Invalid || e.Reason != cloud.ReasonConsoleUnsupported {
		t.Errorf("got %v, want Invalid, %s", err, cloud.ReasonConsoleUnsupported)
	}
}
