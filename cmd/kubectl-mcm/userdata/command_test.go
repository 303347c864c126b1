package userdata

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
)

const specs = "../../../bootstrap/userdata/testdata/"

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	spec, err := os.ReadFile(specs + "ubuntu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cmd := New()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetIn(bytes.NewReader(spec))
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestPrints: what goes into a Secret is exactly the output of the generator, and nothing else.
func TestPrints(t *testing.T) {
	t.Parallel()
	for file, args := range map[string][]string{
		"ubuntu.txt":  {"-f", "-", "--show-secrets", "-o", "cloud-config"},
		"debian.txt":  {"-f", specs + "debian.yaml", "--show-secrets"},
		"flatcar.txt": {"-f", specs + "flatcar.yaml", "--show-secrets", "-o", "ignition"},
	} {
		want, err := os.ReadFile(specs + "golden/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run(t, args...); err != nil || got != string(want) {
			t.Errorf("%q: %v\n%s", args, err, got)
		}
	}
}

// TestSecrets: what somebody pastes into an issue has no password, and says so.
func TestSecrets(t *testing.T) {
	t.Parallel()
	got, err := run(t, "-f", "-")
	if err != nil || strings.Contains(got, "pa55") || !strings.Contains(got, "Secrets are left out") {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestJSON: a program that writes Secrets sees whether the data is complete and fits.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, show := range []bool{false, true} {
		args := []string{"-f", "-", "-o", "json"}
		if show {
			args = append(args, "--show-secrets")
		}
		got, err := run(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		var report Report
		if err := json.Unmarshal([]byte(got), &report); err != nil {
			t.Fatal(err)
		}
		if report.Kind != "UserData" || report.SecretsHidden == show || report.Bytes != len(report.UserData) ||
			report.GzipBytes >= report.Bytes || strings.Contains(report.UserData, "pa55") != show {
			t.Errorf("%q: %s", args, got)
		}
	}
}

// TestExitCodes: a pipeline tells a spec that is refused from a call that is wrong.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		args  []string
		usage bool
	}{
		"--filename is missing": {nil, true},
		"no such file":          {[]string{"-f", "missing.yaml"}, true},
		"does not read":         {[]string{"-f", "-", "-o", "ignition"}, true},
		"unknown flag":          {[]string{"--what"}, true},
		"unknown command":       {[]string{"what"}, true},
		"write kind":            {[]string{"-f", specs + "../../../config/samples/sim/secret.yaml"}, false},
	} {
		_, err := run(t, c.args...)
		var coded *output.CodedError
		if err == nil || !strings.Contains(err.Error(), text) || errors.As(err, &coded) != c.usage {
			t.Errorf("%q: %v, want %q", c.args, err, text)
		}
	}
}
