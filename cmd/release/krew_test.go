package main

import (
	"slices"
	"testing"
)

func TestPluginEntries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason   string
		platform string
		want     []string
	}{
		"Unix": {
			"kubectl completes the plugin's words with a script that is beside it.", "linux/amd64",
			[]string{"kubectl-mcm", "LICENSE", "kubectl_complete-mcm"},
		},
		"Windows": {
			"Windows cannot start a script of the shell.", "windows/amd64", []string{"kubectl-mcm.exe", "LICENSE"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range pluginEntries(tc.platform, nil, nil, nil) {
				got = append(got, e.Name)
				if program := e.Name != "LICENSE"; program != (e.Mode == 0o755) {
					t.Errorf("%s\n%s has mode %o", tc.reason, e.Name, e.Mode)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s\ngot %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}
