package aws_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/parity"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// parityInput is what of a case stands beside the class.
type parityInput struct {
	placement *string // annotation
	secret    map[string]string
	userData  *string
}

// parityInputs are the inputs of the cases that have one.
func parityInputs() map[string]parityInput {
	annotation := func(text string) parityInput { return parityInput{placement: &text} }
	data := func(text string) parityInput { return parityInput{userData: &text} }
	return map[string]parityInput{
		"g-annotation-all": annotation(`{"Affinity": "default", "AvailabilityZone": "eu-west-1a", "GroupId": "pg-2", ` +
			`"HostId": "h-1", "HostResourceGroupArn": "arn:x", "PartitionNumber": 3, "SpreadDomain": "s", "Tenancy": "host"}`),
		"g-annotation-and-placement": annotation(`{"GroupId": "pg-2"}`),
		"g-annotation-bad":           annotation(`{`),
		"g-annotation-braces":        annotation(`{}`),
		"g-annotation-empty":         annotation(``),
		"g-annotation-group":         annotation(`{"GroupName": "g", "Tenancy": "dedicated"}`),
		"g-annotation-null":          annotation(`null`),
		"g-annotation-zone":          annotation(`{"AvailabilityZone": "eu-west-1a"}`),
		"s-secret-both-keys":         {secret: map[string]string{"accessKeyID": "other", "secretAccessKey": "other"}},
		"s-secret-first-empty": {secret: map[string]string{
			"providerAccessKeyId": "", "accessKeyID": ec2test.KeyID,
		}},
		"s-secret-spaces": {secret: map[string]string{
			"providerAccessKeyId": " " + ec2test.KeyID + "\n", "providerSecretAccessKey": ec2test.SecretKey + " \n",
		}},
		"s-userdata-17k":    data(strings.Repeat("\x00", 17<<10)),
		"s-userdata-empty":  data(""),
		"s-userdata-spaces": data("  \n"),
	}
}

// parityDecisions are the classes of which EC2 is asked for something else than by MCM's driver.
func parityDecisions() map[string]parity.Decision {
	all := map[string]parity.Decision{}
	decide := func(reason string, differences []string, cases ...string) {
		for _, name := range cases {
			all[name] = parity.Decision{Reason: reason, Differences: differences}
		}
	}
	const run, disk = "RunInstances/", "RunInstances/BlockDeviceMapping[0]/Ebs/"

	const asked = "the class asks for it, and MCM's driver drops it; a warning says so"
	decide(asked, []string{"+" + disk + `KmsKeyId="key-1"`}, "c-ebs-kms-encrypted")
	decide(asked, []string{"+" + run + `EbsOptimized="true"`}, "c-ebsOptimized")
	decide(asked, []string{"+" + run + `Monitoring/Enabled="true"`}, "c-monitoring")

	const empty = "an empty string names nothing: EC2 would look for a thing without a name"
	decide(empty, []string{"-" + disk + `SnapshotId=""`}, "d-ebs-snapshot-empty")
	decide(empty, []string{"-" + run + `NetworkInterface[0]/InterfaceType=""`}, "d-nic-type-empty")
	decide(empty, []string{"-" + run + `Placement/GroupId=""`}, "d-placement-empties", "d-placement-group-empty")
	decide(empty, []string{"-" + run + `Placement/HostId=""`}, "d-placement-host-tenancy-empty-id")
	decide(empty, []string{
		"-" + run + `CapacityReservationSpecification/CapacityReservationTarget/CapacityReservationId=""`,
	}, "d-capacity-id-empty")
	decide(empty, []string{parity.Looser}, "d-capacity-both-empty", "d-capacity-pref-and-empty-id", "d-cpu-sev-empty",
		"d-placement-affinity-empty", "d-placement-host-empty", "d-placement-tenancy-empty")

	decide("the root disk is then as the image has it", []string{parity.Looser}, "d-blockDevices-empty",
		"d-blockDevices-missing")
	decide("EC2 has the type", []string{parity.Looser}, "c-ebs-type-io2")
	decide("a VM needs no boot data", []string{parity.Looser}, "s-userdata-empty")
	decide("EC2 refuses a negative count, of prefixes only once the instance is there", []string{parity.Stricter},
		"d-nic-ipv6-neg", "d-prefix-neg")

	const slot = "prefixes are for the interface that asks for them; MCM's driver takes their places in its list"
	const assign = "AssignIpv6Addresses/"
	decide(slot, []string{
		"+" + assign + `Ipv6PrefixCount="1"`, "+" + assign + `NetworkInterfaceId="eni-00000000000000004"`,
	}, "f-index-beyond-prefix")
	decide(slot, []string{
		"-" + assign + `NetworkInterfaceId="eni-00000000000000004"`,
		"+" + assign + `NetworkInterfaceId="eni-00000000000000003"`,
	}, "f-two-cards-same-index-prefix")
	return all
}

// TestParity: what EC2 is asked for is what MCM's driver (provider-aws 9dd2b7a, August 2026, recorded against
// ec2test) asked for.
func TestParity(t *testing.T) {
	t.Parallel()
	parity.Run(t, parity.Suite{File: "testdata/parity.jsonl", Ours: parityRequests, Decisions: parityDecisions()})
}

// parityRequests is what EC2 is asked for, or why the class is refused.
func parityRequests(t *testing.T, c parity.Case) ([]parity.Request, error) {
	t.Helper()
	w, input := newEnv(t), parityInputs()[c.Name]
	w.cloud.Change(func(s *ec2test.Settings) { knowAll(s, c.Class) })
	d := aws.NewDriver(w.options)
	class, problems := d.Parse(cloud.ClassInput{Name: "c", Namespace: "default", Spec: c.Class})
	creds := credentials()
	for key, value := range input.secret {
		creds[key] = []byte(value)
	}
	if err := cloud.Worst("parse", append(problems, d.CheckSecret(class, creds)...), cloud.BlocksCreate); err != nil {
		return nil, err
	}
	a, err := d.Open(t.Context(), class, creds)
	if err != nil {
		t.Fatal(err)
	}
	r := w.request(class, 1)
	r.UserData = []byte("#cloud-config\n")
	if input.userData != nil {
		r.UserData = []byte(*input.userData)
	}
	if input.placement != nil {
		r.Annotations = map[string]string{"machine.sapcloud.io/awsPlacement": *input.placement}
	}
	r.Checkpoint = func(_ context.Context, state string) error { r.State = state; return nil }
	for range 20 {
		vm, err := a.Create(t.Context(), r)
		if err != nil || vm.RetryAfter <= 0 {
			return w.changes(), err
		}
		r.ProviderID = vm.ProviderID
		w.now.Advance(vm.RetryAfter)
	}
	t.Fatalf("%s: the VM is not finished", c.Name)
	return nil, nil
}

// knowAll lets a cloud have all that a class names.
func knowAll(s *ec2test.Settings, class json.RawMessage) {
	var names struct {
		AMI     string
		Region  string
		KeyName string
		IAM     struct{ Name, ARN string }
		Type    string `json:"machineType"`
		NICs    []struct {
			Subnet string   `json:"subnetID"`
			Groups []string `json:"securityGroupIDs"`
		} `json:"networkInterfaces"`
	}
	_ = json.Unmarshal(class, &names) // of a class that does not decode, what does
	s.Region = cmp.Or(names.Region, s.Region)
	s.Images[names.AMI] = "/dev/xvda"
	s.Types[names.Type] = s.Types["m5.large"]
	s.Keys = append(s.Keys, names.KeyName)
	s.Profiles = append(s.Profiles, names.IAM.Name, names.IAM.ARN)
	for _, n := range names.NICs {
		s.Subnets[n.Subnet] = s.Subnets["subnet-a1"]
		s.Groups = append(s.Groups, n.Groups...)
	}
}

// changes are the requests that changed something, without names, tokens and tags of the manager's. Tags stand by
// resource and key.
func (w *env) changes() []parity.Request {
	var all []parity.Request
	for _, c := range w.cloud.Calls() {
		if !slices.Contains([]string{"RunInstances", "ModifyNetworkInterfaceAttribute", "AssignIpv6Addresses"}, c.Action) {
			continue
		}
		body := nested(c.Form)
		for _, own := range []string{"Action", "Version", "ClientToken"} {
			delete(body, own)
		}
		if specs, ok := body["TagSpecification"].([]any); ok {
			body["TagSpecification"] = tagsByResource(specs)
		}
		all = append(all, parity.Request{Op: c.Action, Body: body})
	}
	return all
}

// tagsByResource are the tags of a request, but for those of the manager's.
func tagsByResource(specs []any) map[string]any {
	all := map[string]any{}
	for _, s := range specs {
		tags := map[string]any{}
		for _, t := range s.(map[string]any)["Tag"].([]any) {
			tag := t.(map[string]any)
			if key := fmt.Sprint(tag["Key"]); !strings.HasPrefix(key, cloud.TagPrefix) {
				tags[key] = tag["Value"]
			}
		}
		all[fmt.Sprint(s.(map[string]any)["ResourceType"])] = tags
	}
	return all
}

// nested is a request of the query protocol as the tree that its names are paths of.
func nested(form url.Values) map[string]any {
	root := map[string]any{}
	for name := range form {
		at, path := root, strings.Split(name, ".")
		for _, step := range path[:len(path)-1] {
			below, ok := at[step].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[step] = below
			}
			at = below
		}
		at[path[len(path)-1]] = form.Get(name)
	}
	return withLists(root).(map[string]any)
}

// withLists makes lists of the maps whose keys count from 1.
func withLists(value any) any {
	below, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for key := range below {
		below[key] = withLists(below[key])
	}
	if below["1"] == nil {
		return below
	}
	list := make([]any, len(below))
	for i := range list {
		list[i] = below[strconv.Itoa(i+1)]
	}
	return list
}
