// Package userdata prints the boot data that a spec describes. It needs no cluster and no cloud.
package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// exitUsage is the exit code of wrong flags and of files that cannot be read.
const exitUsage = 2

// asJSON is the format with what there is to know besides the data.
const asJSON = "json"

// command are the flags.
type command struct {
	file, format string
	showSecrets  bool
}

// Report is the output for programs.
type Report struct {
	APIVersion       string `json:"apiVersion"`
	Kind             string `json:"kind"`
	Format           string `json:"format"`
	GeneratorVersion string `json:"generatorVersion"`
	SecretsHidden    bool   `json:"secretsHidden"`
	Bytes            int    `json:"bytes"`
	GzipBytes        int    `json:"gzipBytes"`
	UserData         string `json:"userData"`
}

// New returns the command.
func New() *cobra.Command {
	c := &command{}
	cmd := &cobra.Command{
		Use: "userdata -f SPEC", Short: "Make boot data of a node from a spec",
		Long: `Make the userData of a MachineClass's Secret from a spec, a MachineUserData: cloud-config, or for Flatcar
ignition. The bootstrap token and the name of the machine are placeholders, which the manager fills in.
Nothing is asked over the network. docs/userdata.md explains the fields.

Secrets are left out unless --show-secrets is given; without it, no machine works with what is printed.

The exit code is 1 if the spec is refused, and 2 if flags are wrong or the file cannot be read.`,
		Example: `  # read what a machine would get
  kubectl mcm userdata -f workers.yaml

  # the Secret of a MachineClass
  kubectl mcm userdata -f workers.yaml --show-secrets > userdata
  kubectl create secret generic workers --from-file=userData=userdata`,
		Args: func(cmd *cobra.Command, args []string) error { return asUsage(cobra.NoArgs(cmd, args)) },
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.file, "filename", "f", "", "file with the spec, or - for what comes from a pipe")
	flags.StringVarP(&c.format, "output", "o", "",
		"cloud-config or ignition, as the operating system reads it, or json with the sizes; default: what it reads")
	flags.BoolVar(&c.showSecrets, "show-secrets", false, "print secrets, too: for machines")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return asUsage(err) })
	return cmd
}

func (c *command) run(cmd *cobra.Command, _ []string) error {
	spec, err := c.read(cmd.InOrStdin())
	if err != nil {
		return asUsage(err)
	}
	m, err := userdata.Decode(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", c.file, err)
	}
	if c.format != "" && c.format != asJSON && c.format != m.Format() {
		return asUsage(fmt.Errorf("--output: %s does not read %q; write %s or json, or leave it out",
			m.Spec.OperatingSystem.Name, c.format, m.Format()))
	}
	if !c.showSecrets {
		m = m.Masked()
	}
	made, err := userdata.Generate(m)
	if err != nil {
		return err
	}
	return c.print(cmd.OutOrStdout(), made)
}

func (c *command) read(in io.Reader) ([]byte, error) {
	switch c.file {
	case "":
		return nil, fmt.Errorf("--filename is missing: name the file of a spec, or -")
	case "-":
		return io.ReadAll(in)
	}
	return os.ReadFile(c.file)
}

func (c *command) print(out io.Writer, made *userdata.Output) error {
	if c.format != asJSON {
		_, err := out.Write(made.Data)
		return err
	}
	packed, err := packedSize(made.Data)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false) // placeholders stay readable
	encoder.SetIndent("", "  ")
	return encoder.Encode(Report{
		APIVersion: explain.Version, Kind: "UserData", Format: made.Format, GeneratorVersion: made.GeneratorVersion,
		SecretsHidden: !c.showSecrets, Bytes: len(made.Data), GzipBytes: packed, UserData: string(made.Data),
	})
}

// packedSize is that after the compression that the manager does for cloud-init where a cloud's limit
// asks for it.
func packedSize(data []byte) (int, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(data); err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return out.Len(), nil
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &output.CodedError{Code: exitUsage, Err: err}
}
