// Package console explains from the serial console of a VM why its node did not join.
package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/explain/console"
)

// longest is how much of a file is read: more than any cloud keeps of a console.
const longest = 16 << 20

// New returns the command.
func New() *cobra.Command {
	return &cobra.Command{
		Use: "console FILE", Short: "Explain from a VM's console why its node did not join",
		Long: `Explain from the text of a VM's serial console, as the cloud's own tools show it, why the VM's
node did not join. FILE is - for the standard input. Only the end counts, 32 KiB. No cluster and
no cloud is asked.

The line that is printed is the guest's: it may contain what boot data has written to the console.`,
		Example: `  openstack console log show VM | kubectl mcm console -
  aws ec2 get-console-output --instance-id ID --latest --output text | kubectl mcm console -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := read(cmd.InOrStdin(), args[0])
			if err != nil {
				return fmt.Errorf("read console: %w", err)
			}
			return write(cmd.OutOrStdout(), console.Classify(cloud.ConsoleTail(text)))
		},
	}
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

// write prints a verdict. Only an unknown console is shown itself.
func write(out io.Writer, v console.Verdict) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Cause:   %s", v.Summary)
	if v.Cause != console.Unknown {
		fmt.Fprintf(&b, " (%s)\nSeen:    %d times, at last in\n         %s", v.Cause, v.Times, v.Line)
	}
	fmt.Fprintf(&b, "\nRemedy:  %s\n", v.Remedy)
	if v.Cause == console.Unknown && len(v.Tail) > 0 {
		fmt.Fprintf(&b, "The end:\n         %s\n", strings.Join(v.Tail, "\n         "))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
