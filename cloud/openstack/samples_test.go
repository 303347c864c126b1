package openstack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

const samples = "../../config/samples/openstack"

// mcmClass is a class with the fields that MCM's documentation has, as it writes
// them: the deprecated ones among them.
const mcmClass = `
apiVersion: openstack.machine.gardener.cloud/v1alpha1
kind: MachineProviderConfig
spec:
  availabilityZone: az-1
  flavorName: medium_2_4
  imageID: 1f0c5a4e-2d4c-4a1c-9f33-1f2f6d8e3c11
  imageName: coreos-1911.5.1
  keyName: shoot-ssh-publickey
  networkID: 426428e5-ec63-4ee2-b882-2b217cb16d2b
  subnetID: 7d4ffdfc-3b21-4b10-9a41-2e1e3c3f7b33
  podNetworkCidr: 100.96.0.0/11
  region: eu-de-1
  rootDiskSize: 100
  securityGroups:
  - shoot-nodes
  tags:
    kubernetes.io-cluster-shoot--foobar: "1"
    kubernetes.io-role-node: "1"
`

// mcmSecret goes with it.
const mcmSecret = `
authURL: https://keystone.example.com:5000/v3
domainName: hec03
tenantName: tenant
username: someone
password: secret
userData: encoded-data
`

// provided returns the provider spec of a manifest as the API server gives it.
func provided(t *testing.T, text []byte, manifest bool) json.RawMessage {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var spec any = doc
	if manifest {
		spec = doc["providerSpec"]
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSamplesDecode: classes as MCM documents them mean what they mean to MCM.
func TestSamplesDecode(t *testing.T) {
	t.Parallel()
	yes, fast, group := true, "fast", "00000000-0000-0000-0000-000000000000"
	const zero = "00000000-0000-0000-0000-000000000000"
	tags := map[string]string{"kubernetes.io-cluster-example": "1", "kubernetes.io-role-node": "1"}
	cases := map[string]struct {
		raw      json.RawMessage
		want     spec
		port     bool // is made before the server
		volume   bool // is made before the server
		warnings []string
	}{
		"machineclass.yaml": {want: spec{
			ImageID: zero, Region: "RegionOne", AvailabilityZone: "nova", FlavorName: "m1.medium", KeyName: "a-key",
			SecurityGroups: []string{"nodes"},
			NetworkID:      zero, PodNetworkCIDRs: []string{"100.64.0.0/11"}, Tags: tags,
		}},
		"machineclass-volume.yaml": {port: true, volume: true, want: spec{
			ImageName: "ubuntu-24.04", Region: "RegionOne", AvailabilityZone: "nova", FlavorName: "m1.medium", KeyName: "a-key",
			SecurityGroups: []string{"nodes"},
			NetworkID:      zero, SubnetIDs: []string{zero}, PodNetworkCIDRs: []string{"100.64.0.0/11"}, Tags: tags,
			RootDiskSize:   50,
			RootDiskType:   &fast,
			UseConfigDrive: &yes, ServerGroupID: &group,
		}},
		"machineclass-floating-ip.yaml": {port: true, want: spec{
			ImageName: "ubuntu-24.04", Region: "RegionOne", FlavorName: "m1.medium", NetworkID: zero, Tags: tags,
			Subnets: []string{"workers"}, FloatingIPPool: "public", ServerGroup: "spread-over-hosts",
			DefaultSecurityGroup: "nodes", WithoutKeyPair: true, WithoutAvailabilityZone: true, WithoutPodNetworkCIDRs: true,
		}},
		"MCM's": {
			raw: provided(t, []byte(mcmClass), false), port: true,
			warnings: []string{"providerSpec.spec.podNetworkCidr", "providerSpec.spec.subnetID"}, want: spec{
				ImageID: "1f0c5a4e-2d4c-4a1c-9f33-1f2f6d8e3c11", ImageName: "coreos-1911.5.1", Region: "eu-de-1",
				AvailabilityZone: "az-1", FlavorName: "medium_2_4",
				KeyName: "shoot-ssh-publickey", SecurityGroups: []string{"shoot-nodes"},
				NetworkID: "426428e5-ec63-4ee2-b882-2b217cb16d2b",
				SubnetIDs: []string{"7d4ffdfc-3b21-4b10-9a41-2e1e3c3f7b33"}, PodNetworkCIDRs: []string{"100.96.0.0/11"},
				RootDiskSize: 100,
				Tags:         map[string]string{"kubernetes.io-cluster-shoot--foobar": "1", "kubernetes.io-role-node": "1"},
			},
		},
	}
	for name, c := range cases {
		if c.raw == nil {
			text, err := os.ReadFile(filepath.Join(samples, name))
			if err != nil {
				t.Fatal(err)
			}
			c.raw = provided(t, text, true)
		}
		class, problems := NewDriver(Options{}).Parse(cloud.ClassInput{Name: "c", Namespace: "n", Spec: c.raw})
		got := class.Spec.(*config) //nolint:forcetypeassert // Parse returns nothing else
		if diff := cmp.Diff(c.want, got.Spec); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if got.Spec.ownPort() != c.port || got.Spec.ownVolume() != c.volume {
			t.Errorf("%s: a port of its own %v, a volume %v, want %v, %v", name, got.Spec.ownPort(), got.Spec.ownVolume(),
				c.port, c.volume)
		}
		var fields []string
		for _, p := range problems {
			fields = append(fields, p.Field)
		}
		if diff := cmp.Diff(c.warnings, fields); diff != "" {
			t.Errorf("%s: problems (-want +got)\n%s", name, diff)
		}
		if class.Region != c.want.Region || class.Zone != c.want.AvailabilityZone || class.InstanceType != c.want.FlavorName {
			t.Errorf("%s: got region %q, zone %q, type %q", name, class.Region, class.Zone, class.InstanceType)
		}
	}
}

// TestSampleSecretsWork: what MCM documents, and what stands in the samples, is
// complete.
func TestSampleSecretsWork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(samples, "secret.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		StringData map[string]string `yaml:"stringData"`
	}
	var documented map[string]string
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(mcmSecret), &documented); err != nil {
		t.Fatal(err)
	}
	for name, entries := range map[string]map[string]string{"secret.yaml": manifest.StringData, "MCM's": documented} {
		if l := loginOf(secret(entries), nil); len(l.problems) > 0 {
			t.Errorf("%s: %v", name, l.problems)
		}
	}
}
