package console_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/console"
	verdicts "github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

const (
	said    = "\"Unable to register node\" err=\"x509: certificate signed by unknown authority\""
	refused = "\x1b[0;32mkubelet[905]\x1b[0m: " + said + "\r\n"

	refusedText = "Cause:   TLS unknown CA (UnknownCA)\nSeen:    2 times, at last in\n" +
		"         kubelet[905]: " + said + "\n" +
		"Remedy:  the boot data has another cluster's CA, or the endpoint shows another certificate: compare both\n"
	unknownText = "Cause:   unknown\n" +
		"Remedy:  read the end of the console; nothing on it is known to keep a node from joining\n"
	endText = "The end:\n         a\n         login:\n"
)

// TestConsole: what the cloud's tools print leads to a cause, and to nothing that controls the reader's terminal.
func TestConsole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reason, in, want string }{
		"Known":   {"A person sees what to do, and why.", refused + refused + "node-1 login: ", refusedText},
		"Unknown": {"It is not guessed: the end is shown.", "a\n\nlogin:", unknownText + endText},
		"Empty":   {"Right after its start a VM has written nothing.", "", unknownText},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := run(c.in, "-")
			if err != nil || out != c.want {
				t.Errorf("got %v,\n%s\nwant\n%s\nbecause: %s", err, out, c.want, c.reason)
			}
		})
	}
}

// TestConsoleRefused: what cannot be read is a failure and no unknown cause.
func TestConsoleRefused(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ in, file, want string }{
		"A file may be missing.":     {"", "testdata/none.txt", "read console: open testdata/none.txt"},
		"A wrong file may be large.": {strings.Repeat("x", 16<<20+1), "-", "more than 16 MiB"},
	} {
		if out, err := run(c.in, c.file); err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("got %q, %v, want %s\nbecause: %s", out, err, c.want, reason)
		}
	}
}

// kept is what the manager has kept.
func kept(_ context.Context, kind, name string) ([]verdicts.Failure, error) {
	if kind != "machinedeployment" {
		return nil, errors.New("none is kept")
	}
	text := "a\n" + said + "\n"
	return []verdicts.Failure{
		{
			Machine: name + "-1", ProviderID: "sim:///1", Read: time.Unix(0, 0), Cause: "UnknownCA", Times: 1, Line: said,
			Text: text,
		},
		{Machine: name + "-2", ProviderID: "sim:///2", Read: time.Unix(0, 0), Text: "b\n"},
	}, nil
}

// TestKept: the machine is gone, and why it did not join is not.
func TestKept(t *testing.T) {
	t.Parallel()
	first := "Machine: pool-1, VM sim:///1, read 1970-01-01T00:00:00Z\n" +
		strings.Replace(refusedText, "2 times, at last in", "once, in", 1)
	first = strings.Replace(first, "kubelet[905]: ", "", 1)
	second := "\nMachine: pool-2, VM sim:///2, read 1970-01-01T00:00:00Z\n" + unknownText + "The end:\n         b\n"
	out, err := run("", "machinedeployment", "pool")
	if err != nil || out != first+second {
		t.Errorf("got %v,\n%s\nwant\n%s", err, out, first+second)
	}
	if out, err = run("", "machinedeployment", "pool", "--text"); err != nil || !strings.Contains(out, "Text:\na\n"+said) {
		t.Errorf("got %v,\n%s\nwant the text, too", err, out)
	}
	if out, err = run("", "machine", "other"); err == nil || out != "" {
		t.Errorf("got %q, %v, want that nothing is kept", out, err)
	}
}

// run runs the command with a text at its standard input.
func run(in string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := console.New(kept)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}
