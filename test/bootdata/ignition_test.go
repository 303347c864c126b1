package bootdata

import (
	"os"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_4"
)

const golden = "../../bootstrap/userdata/testdata/golden/flatcar.txt"

// TestIgnition: a machine with a config that Ignition refuses stops in its initramfs, and what it
// warns of it ignores. The tests of package userdata hold the file equal to what it makes.
func TestIgnition(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	config, report, err := v3_4.Parse(text)
	if err != nil || len(report.Entries) > 0 {
		t.Fatalf("%v\n%s", err, report.String())
	}
	if len(config.Storage.Files) == 0 || len(config.Systemd.Units) == 0 {
		t.Errorf("%d files and %d units, want some: keys of other names are ignored",
			len(config.Storage.Files), len(config.Systemd.Units))
	}
}

// TestIgnitionBites: mistakes of the kinds that a generator can make are found.
func TestIgnitionBites(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for name, mistake := range map[string][2]string{
		"Version":  {`"version":"3.4.0"`, `"version":"3.9.0"`},
		"Key":      {`"mode":420`, `"modus":420`},
		"Path":     {`"path":"/etc/hostname"`, `"path":"etc/hostname"`},
		"Source":   {`"source":"data:,`, `"source":"date:,`},
		"UnitName": {`"units":[{"name":"mcm-setup.service"`, `"units":[{"name":"mcm-setup.servant"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(string(text), mistake[0], mistake[1], 1)
			if broken == string(text) {
				t.Fatalf("there is no %q to break", mistake[0])
			}
			if _, report, err := v3_4.Parse([]byte(broken)); err == nil && len(report.Entries) == 0 {
				t.Errorf("%q in place of %q was not found", mistake[1], mistake[0])
			}
		})
	}
}
