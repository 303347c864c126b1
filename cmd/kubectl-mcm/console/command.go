// Package console explains from the serial console of a VM why its node did not join.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// longest is how much of a file is read: more than any cloud keeps of a console.
const longest = 16 << 20

// New returns the command. kept returns what the manager has kept of a machine or a pool, at least
// one.
func New(kept func(ctx context.Context, kind, name string) ([]console.Failure, error)) *cobra.Command {
	text := false
	cmd := &cobra.Command{
		Use: "console FILE | console KIND NAME", Short: "Explain from a VM's console why its node did not join",
		Long: `Explain from the text of a VM's serial console why the VM's node did not join.

FILE has what the cloud's own tools show; - is the standard input. Only the end counts, 32 KiB. No
cluster and no cloud is asked. The line that is printed is the guest's: it may contain what boot
data has written to the console.

With KIND and NAME of a pool (machinedeployment, machineset), or of a machine, which may be gone,
it is what the manager has kept of machines that did not join, redacted. That needs the right to
read Secrets.`,
		Example: `  openstack console log show VM | kubectl mcm console -
  aws ec2 get-console-output --instance-id ID --latest --output text | kubectl mcm console -

  # why did the last machines of this pool not join?
  kubectl mcm console machinedeployment workers -n garden

  # the whole text that was kept of one
  kubectl mcm console machine workers-abcde-x2f4d -n garden --text`,
		Args: cobra.RangeArgs(1, fileOrObject),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == fileOrObject {
				found, err := kept(cmd.Context(), args[0], args[1])
				if err != nil {
					return fmt.Errorf("read kept consoles of %s %s: %w", args[0], args[1], err)
				}
				return writeKept(cmd.OutOrStdout(), found, text)
			}
			found, err := read(cmd.InOrStdin(), args[0])
			if err != nil {
				return fmt.Errorf("read console: %w", err)
			}
			return write(cmd.OutOrStdout(), console.Classify(cloud.ConsoleTail(found)))
		},
	}
	cmd.Flags().BoolVar(&text, "text", false, "print the text that was kept, too")
	return cmd
}

// fileOrObject is how many arguments name an object; one fewer names a file.
const fileOrObject = 2

// writeKept prints what was kept, the newest first.
func writeKept(out io.Writer, found []console.Failure, text bool) error {
	for i, f := range found {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "Machine: %s, VM %s, read %s\n", f.Machine, f.ProviderID, f.Read.UTC().Format(time.RFC3339))
		if err := write(out, f.Verdict()); err != nil {
			return err
		}
		if text {
			fmt.Fprintf(out, "Text:\n%s", f.Text)
		}
	}
	return nil
}

// read returns the text of a file, or of in for a dash.
func read(in io.Reader, name string) (string, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, longest+1))
	if err == nil && len(text) > longest {
		err = errors.New("it has more than 16 MiB: give its end only")
	}
	return string(text), err
}

// seen is how often a cause was seen.
func seen(times int) string {
	if times == 1 {
		return "once, in"
	}
	return fmt.Sprintf("%d times, at last in", times)
}

// write prints a verdict. Only an unknown console is shown itself.
func write(out io.Writer, v console.Verdict) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Cause:   %s", v.Summary)
	if v.Cause != console.Unknown {
		fmt.Fprintf(&b, " (%s)\nSeen:    %s\n         %s", v.Cause, seen(v.Times), v.Line)
	}
	fmt.Fprintf(&b, "\nRemedy:  %s\n", v.Remedy)
	if v.Cause == console.Unknown && len(v.Tail) > 0 {
		fmt.Fprintf(&b, "The end:\n         %s\n", strings.Join(v.Tail, "\n         "))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
