package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func TestParse(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("bootTime: 7s\nlatency: {GetVM: 1s}\nimages: [{id: x}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason     string
		args       []string
		edit       func(*sim.Settings) // of the defaults
		configured bool
	}{
		"Defaults": {"without flags the state file decides", nil, func(*sim.Settings) {}, false},
		"Times": {
			"flags set times",
			[]string{"--latency=1s", "--boot-time=2s", "--delete-time=3s", "--settle=4s"},
			func(s *sim.Settings) {
				s.Latency = map[string]sim.Duration{"*": sim.Duration(time.Second)}
				s.BootTime, s.DeleteTime, s.Settle = sim.Duration(
					2*time.Second), sim.Duration(3*time.Second), sim.Duration(4*time.Second)
			}, true,
		},
		"Config": {
			"a file is merged over the defaults, a flag over the file",
			[]string{"--config=" + config, "--boot-time=0s"},
			func(s *sim.Settings) {
				s.Latency = map[string]sim.Duration{"GetVM": sim.Duration(time.Second)}
				s.Images = []sim.Image{{ID: "x"}}
			}, true,
		},
		"Zones": {
			"zones and their capacity",
			[]string{"--region=r", "--zones=a,b", "--capacity=a/small=2,b/large=0"},
			func(s *sim.Settings) {
				s.Zones = []sim.Zone{
					{Name: "a", Region: "r", Capacity: map[string]int{"small": 2}},
					{Name: "b", Region: "r", Capacity: map[string]int{"large": 0}},
				}
				for i := range s.Networks {
					s.Networks[i].Region = "r"
				}
			}, true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := parse(c.args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			want := sim.DefaultSettings()
			c.edit(&want)
			if diff := cmp.Diff(want, o.settings); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if o.configured != c.configured || o.seed == 0 {
				t.Errorf("%s: configured %v, seed %d", c.reason, o.configured, o.seed)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--nonsense"},
		{"extra"},
		{"--workers=0"},
		{"--capacity=a"},
		{"--capacity=sim-1a/small=-1"},
		{"--capacity=nowhere/small=1"},
		{"--config=/nonexistent"},
		{"--latency=5"},
	} {
		if o, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is accepted: %+v", args, o)
		}
	}
}
