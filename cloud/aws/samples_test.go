package aws_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// TestSamples: the samples mean what they say.
func TestSamples(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Change(func(s *ec2test.Settings) {
		s.Images["ami-0123456789abcdef0"] = "/dev/xvda"
		for i, zone := range []string{"eu-west-1a", "eu-west-1b", "eu-west-1c"} {
			s.Subnets[fmt.Sprintf("subnet-0123456789abcdef%d", i)] = ec2test.Subnet{Zone: zone, Free: -1}
		}
		s.Groups = append(s.Groups, "sg-0123456789abcdef0", "sg-0fedcba9876543210")
		s.Profiles = append(s.Profiles, "control-plane.example.com", "nodes.example.com",
			"arn:aws:iam::123456789012:instance-profile/nodes.example.com")
	})
	for _, file := range []string{"machineclass.yaml", "machineclass-spot.yaml", "machineclass-control-plane.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../config/samples/aws", file))
		if err != nil {
			t.Fatal(err)
		}
		var object struct {
			Provider     string         `yaml:"provider"`
			ProviderSpec map[string]any `yaml:"providerSpec"`
		}
		if err := yaml.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		spec, err := json.Marshal(object.ProviderSpec)
		if err != nil {
			t.Fatal(err)
		}
		in := cloud.ClassInput{Name: file, Spec: spec}
		if _, problems := aws.NewDriver(w.options).Parse(in); len(problems) > 0 || object.Provider != aws.ProviderName {
			t.Errorf("%s: provider %s, problems %v", file, object.Provider, problems)
		}
		a, c := w.open(in, credentials())
		r := w.request(c, len(file))
		if _, err := a.Create(t.Context(), r); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := a.Capacity(t.Context(), c); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
