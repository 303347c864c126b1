package bootdata_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/bootdata"
)

// TestFromSecret: boot data is written, or made from a spec, and a Secret with both is refused.
func TestFromSecret(t *testing.T) {
	t.Parallel()
	spec, err := os.ReadFile("../../config/samples/userdata/ubuntu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		entries map[string][]byte
		data    string // in what is returned
		wrong   string // in the error
	}{
		"Written": {map[string][]byte{machinev1.UserDataKey: []byte("#!/bin/sh")}, "#!/bin/sh", ""},
		"Made":    {map[string][]byte{machinev1.UserDataSpecKey: spec}, "#cloud-config\n", ""},
		"Both": {
			map[string][]byte{machinev1.UserDataKey: []byte("x"), machinev1.UserDataSpecKey: spec},
			"",
			`has both entries "userData" and "userDataSpec"; remove one`,
		},
		"None": {nil, "", `has no entry "userData"; add one`},
		"Empty entries": {
			map[string][]byte{machinev1.UserDataKey: {}, machinev1.UserDataSpecKey: {}}, "", `has no entry "userData"; add one`,
		},
		"Wrong spec": {
			map[string][]byte{machinev1.UserDataSpecKey: bytes.Replace(spec, []byte("kubernetesVersion: v"),
				[]byte("kubernetesVersion: "), 1)}, "", "spec.kubernetesVersion",
		},
		"No spec": {map[string][]byte{machinev1.UserDataSpecKey: []byte("a: [")}, "", `has in the entry "userDataSpec"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := bootdata.FromSecret(tc.entries)
			if tc.wrong == "" && (err != nil || !strings.HasPrefix(string(data), tc.data)) {
				t.Errorf("got %.60q, %v; want %q", data, err, tc.data)
			}
			if tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)) {
				t.Errorf("got %.60q, %v; want an error with %q", data, err, tc.wrong)
			}
		})
	}
}

// TestMadeNeedsToken: the placeholders of what is made are filled in like written ones.
func TestMadeNeedsToken(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"ubuntu", "flatcar"} {
		spec, err := os.ReadFile("../../config/samples/userdata/" + system + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := bootdata.FromSecret(map[string][]byte{machinev1.UserDataSpecKey: spec})
		if err != nil {
			t.Fatal(err)
		}
		const token = "abcdef.0123456789abcdef"
		filled, err := bootstrap.Fill(raw, bootstrap.Values{MachineName: "machine-1", Token: token})
		if err != nil || !bootstrap.NeedsToken(raw) || bootstrap.NeedsToken(filled) {
			t.Errorf("%s: error %v, needs a token %v, then %v; want one that is filled in", system, err,
				bootstrap.NeedsToken(raw), bootstrap.NeedsToken(filled))
		}
	}
}
