package ec2test_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// The source of the models.
const (
	modelModule   = "github.com/aws/aws-sdk-go@v1.55.8"
	modelSum      = "h1:JRmEUbU52aJQZ2AjX4q4Wu7t4uZjOu71uyNmaWlUkJQ="
	modelFile     = "models/apis/ec2/2016-11-15/api-2.json"
	balancingFile = "models/apis/elasticloadbalancingv2/2015-12-01/api-2.json"
)

// extracts are the files that are kept of the models.
func extracts() map[string]string {
	return map[string]string{"model.json": modelFile, "balancing.json": balancingFile}
}

// modelActions are those of a model that a Cloud answers.
func modelActions(file string) []string {
	if file == balancingFile {
		return []string{"DeregisterTargets", "DescribeTargetHealth", "RegisterTargets"}
	}
	return []string{
		"AssignIpv6Addresses", "CancelSpotInstanceRequests", "CreateTags", "DeleteNetworkInterface", "DeleteTags",
		"DeleteVolume", "DescribeImages",
		"DescribeInstanceTypes", "DescribeInstances", "DescribeNetworkInterfaces", "DescribeSpotInstanceRequests",
		"DescribeSubnets", "DescribeVolumes", "GetConsoleOutput",
		"ModifyNetworkInterfaceAttribute", "RebootInstances", "RunInstances", "StartInstances", "TerminateInstances",
	}
}

// api is a model in Amazon's form.
type api struct {
	Operations map[string]struct{ Input, Output apiRef }
	Shapes     map[string]struct {
		Type     string
		Members  map[string]apiRef
		Required []string
		Member   apiRef
		Enum     []string
		Pattern  string
		Min, Max *float64
	}
}

type apiRef struct{ Shape, LocationName, QueryName string }

// wire returns the name of a member in a request of the protocol ec2.
func (r apiRef) wire(member string) string {
	switch {
	case r.QueryName != "":
		return r.QueryName
	case r.LocationName != "":
		return strings.ToUpper(r.LocationName[:1]) + r.LocationName[1:]
	}
	return member
}

// extract adds a shape, and those that it consists of, in the form of model.json. It
// returns the name of the shape, or of its type where that says everything.
func (a api) extract(name string, into map[string]map[string]any) string {
	s := a.Shapes[name]
	enum := s.Enum
	switch name {
	case "InstanceType":
		enum = nil // it grows every month: those that a Cloud has are among its settings
	case "MarketType":
		enum = append(slices.Clone(enum), "interruptible-capacity-reservation") // newer than the module
	case "CapacityReservationPreference":
		enum = append(slices.Clone(enum), "capacity-reservations-only") // newer than the module
	}
	out := map[string]any{"type": s.Type}
	set := func(key string, value any, there bool) {
		if there {
			out[key] = value
		}
	}
	set("enum", enum, len(enum) > 0)
	set("pattern", s.Pattern, s.Pattern != "")
	set("min", s.Min, s.Min != nil)
	set("max", s.Max, s.Max != nil)
	if s.Type != "structure" && s.Type != "list" && len(out) == 1 {
		return s.Type
	}
	if into[name] != nil {
		return name
	}
	into[name] = out
	if s.Type == "list" {
		out["member"] = a.extract(s.Member.Shape, into)
		return name
	}
	members := map[string]string{}
	for member, r := range s.Members {
		members[r.wire(member)] = a.extract(r.Shape, into)
	}
	set("members", members, len(members) > 0)
	var required []string
	for _, member := range slices.Sorted(slices.Values(s.Required)) {
		required = append(required, s.Members[member].wire(member))
	}
	set("required", required, len(required) > 0)
	return name
}

// text is the extract of a model: a line for each shape.
func (a api) text(t *testing.T, file string) []byte {
	t.Helper()
	shapes, actions := map[string]map[string]any{}, map[string]string{}
	for _, action := range modelActions(file) {
		actions[action] = a.extract(a.Operations[action].Input.Shape, shapes)
	}
	line := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"source\": %s,\n\"actions\": %s,\n\"shapes\": {\n",
		line(modelModule+" "+file+", Apache License 2.0"), line(actions))
	names := slices.Sorted(maps.Keys(shapes))
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "%s: %s%s\n", line(name), line(shapes[name]), comma)
	}
	b.WriteString("}}\n")
	return b.Bytes()
}

// fetch returns a model that Amazon publishes. It skips the test where it cannot be had.
func fetch(t *testing.T, file string) api {
	t.Helper()
	if testing.Short() {
		t.Skip("it downloads a large module")
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", modelModule)
	cmd.Dir = t.TempDir() // in no module, so that none requires it
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the module with the model cannot be had: %v", err)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil || module.Sum != modelSum {
		t.Fatalf("%s has the sum %s, %v, want %s", modelModule, module.Sum, err, modelSum)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	var a api
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestModelIsCurrent: the extracts are what Amazon publishes. EC2TEST_UPDATE=1 writes them.
func TestModelIsCurrent(t *testing.T) {
	t.Parallel()
	for name, file := range extracts() {
		got := fetch(t, file).text(t, file)
		if os.Getenv("EC2TEST_UPDATE") != "" {
			if err := os.WriteFile(name, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what %s says, %v; EC2TEST_UPDATE=1 writes it", name, modelModule, err)
		}
	}
}

// element is a part of an answer.
type element struct {
	XMLName xml.Name
	Below   []element `xml:",any"`
	Text    string    `xml:",chardata"`
}

// invented returns the paths of elements that an answer of that shape does not have.
func (a api) invented(at string, e element, of string) []string {
	var found []string
	for _, below := range e.Below {
		name, shape := below.XMLName.Local, ""
		if at == "" && name == "return" {
			continue // the model leaves out what all answers of actions without a result have
		}
		if s := a.Shapes[of]; s.Type == "list" && s.Member.LocationName == name {
			shape = s.Member.Shape
		} else {
			for member, r := range s.Members {
				if cmp.Or(r.LocationName, member) == name {
					shape = r.Shape
				}
			}
		}
		if path := at + "/" + name; shape == "" {
			found = append(found, path)
		} else {
			found = append(found, a.invented(path, below, shape)...)
		}
	}
	return found
}

// TestAnswers: a Cloud answers only what EC2 answers too.
func TestAnswers(t *testing.T) {
	t.Parallel()
	a := fetch(t, modelFile)
	c := ec2test.New(ec2test.DefaultSettings(), nil)
	spot := launch("InstanceMarketOptions.MarketType", "spot",
		"InstanceMarketOptions.SpotOptions.SpotInstanceType", "persistent",
		"NetworkInterface.1.Ipv6AddressCount", "1", "NetworkInterface.1.AssociatePublicIpAddress", "true",
		"TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", "k")
	requests := []url.Values{spot}
	vm := c.Add(ec2test.Resource{Kind: ec2test.KindInstance, Subnet: "subnet-a1"})
	volume := c.Add(ec2test.Resource{Kind: ec2test.KindVolume, Tags: map[string]string{"k": "v"}})
	nic := c.Add(ec2test.Resource{Kind: ec2test.KindInterface, Tags: map[string]string{"k": "v"}})
	c.Print(vm, "booted\n")
	requests = append(requests,
		form("AssignIpv6Addresses", "NetworkInterfaceId", nic, "Ipv6PrefixCount", "1"),
		form("ModifyNetworkInterfaceAttribute", "NetworkInterfaceId", nic, "SourceDestCheck.Value", "false"),
		form("DescribeInstances"), form("DescribeVolumes"), form("DescribeNetworkInterfaces"),
		form("DescribeImages", "ImageId.1", "ami-1"), form("DescribeSubnets", "SubnetId.1", "subnet-a1"),
		form("DescribeInstanceTypes", "InstanceType.1", "p3.2xlarge"), form("DescribeSpotInstanceRequests"),
		form("DescribeInstances", "MaxResults", "1"), form("GetConsoleOutput", "InstanceId", vm, "Latest", "true"),
		form("TerminateInstances", "InstanceId.1", vm),
		form("DeleteVolume", "VolumeId", volume), form("DeleteNetworkInterface", "NetworkInterfaceId", nic),
	)
	for _, f := range requests {
		action := f.Get("Action")
		text := send(t, c, f)
		var answer element
		if err := xml.Unmarshal(text, &answer); err != nil || answer.XMLName.Local != action+"Response" {
			t.Errorf("%s: the answer is %s, %v", action, text, err)
			continue
		}
		for _, path := range a.invented("", answer, a.Operations[action].Output.Shape) {
			t.Errorf("%s: EC2 answers no %s", action, path)
		}
	}
}
