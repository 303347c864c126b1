package openstack

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// run runs a program to its end and returns what it writes to its standard
// output.
func run(ctx context.Context, input string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, failed bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &failed
	cmd.SysProcAttr = process.Attributes()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", program, err, failed.String())
	}
	return out.String(), nil
}
