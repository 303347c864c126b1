package fallback

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestSamples: the manifests of the handbook name the classes that its text names.
func TestSamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := bytes.Cut(page, []byte("\n## Capacity fallback\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	samples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(section, -1)
	if len(samples) != 2 {
		t.Fatalf("%d samples, want one for each API", len(samples))
	}
	var native machinev1.MachineDeployment
	var template infrav1.MCMMachineTemplate
	if err := yaml.UnmarshalStrict(samples[0][1], &native); err != nil {
		t.Error(err)
	}
	if err := yaml.UnmarshalStrict(samples[1][1], &template); err != nil {
		t.Error(err)
	}
	want := []string{"workers-spot", "workers-m6i", "workers-on-demand"}
	first := native.Spec.Template.Spec.Class.Name
	if got := append([]string{first}, machinev1.FallbackClasses(&native, first)...); !slices.Equal(got, want) {
		t.Errorf("the MachineDeployment has classes %s, want %s", got, want)
	}
	if got := template.Spec.Template.Spec.ClassNames(); !slices.Equal(got, want) {
		t.Errorf("the MCMMachineTemplate has classes %s, want %s", got, want)
	}
}
