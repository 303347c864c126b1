package vsphere

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// TestClassesOfMCM decodes classes and Secrets as MCM's users have them, in
// testdata/mcm, and compares what they mean with a file. CLOUDTEST_UPDATE=1
// writes it.
func TestClassesOfMCM(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/mcm/*.json")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there are no classes")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var in struct {
			Class struct {
				Metadata     struct{ Name, Namespace string }
				Provider     string
				ProviderSpec json.RawMessage
			}
			Secret struct{ Data map[string][]byte }
		}
		must(t, json.Unmarshal(text, &in))
		golden := strings.TrimSuffix(file, ".json") + ".golden"
		got := meaning(t, cloud.ClassInput{
			Name: in.Class.Metadata.Name, Namespace: in.Class.Metadata.Namespace,
			Spec: in.Class.ProviderSpec,
		}, in.Secret.Data)
		if in.Class.Provider != ProviderName {
			t.Errorf("%s: provider %q, want %q", file, in.Class.Provider, ProviderName)
		}
		if os.Getenv("CLOUDTEST_UPDATE") != "" {
			must(t, os.WriteFile(golden, []byte(got), 0o600))
		}
		want, err := os.ReadFile(golden)
		must(t, err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s means something else now: -want +got:\n%s", file, diff)
		}
	}
}

// meaning is what a class and its Secret say, as text.
func meaning(t *testing.T, in cloud.ClassInput, creds cloud.Credentials) string {
	t.Helper()
	d := NewDriver(nil, nil)
	c, problems := d.Parse(in)
	s, err := driverkit.SpecOf[*spec]("try", c)
	must(t, err)
	who, missing := readLogin(creds)
	cluster, role := s.ownership()
	text, err := json.MarshalIndent(map[string]any{
		"spec": s, "problems": problems, "cluster": cluster, "role": role, "owner": c.Owner, "region": c.Region,
		"ignition":          s.isIgnition(&types.VirtualMachineConfigInfo{}),
		"injects user data": !s.vAppGiven(), "login": map[string]any{
			"endpoint": who.endpoint.String(), "user": who.user, "password is set": who.password == "not-a-real-one",
			"insecure": who.insecure, "problems": missing,
		},
	}, "", "  ")
	must(t, err)
	return string(text) + "\n"
}
