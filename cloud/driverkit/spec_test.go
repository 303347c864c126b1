package driverkit_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

type spec struct {
	Region string `json:"region"`
	Disks  []struct {
		Size int32  `json:"size"`
		Type string `json:"type"`
	} `json:"disks"`

	driverkit.Checks
}

func parse(text string) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(json.RawMessage(text), s, lenient.Options{Hint: "region"})
	return s
}

func TestAWrongTypeIsOneProblem(t *testing.T) {
	t.Parallel()
	s := parse(`{"Region":5,"disks":[{"size":"big","type":"odd"}]}`)
	s.Require(cloud.BlocksAll, "region", s.Region, "name it")
	for path, want := range map[string]bool{
		"region": true, "disks": true, "disks[0]": true, "disks[0].size": true,
		"disks[0].type": false, "disk": false, "disks[0].siz": false, "disks[1]": false,
	} {
		if got := s.Wrong(path); got != want {
			t.Errorf("Wrong(%q) = %v, want %v", path, got, want)
		}
	}
	if len(s.Problems) != 2 {
		t.Errorf("got %v, want one problem for each value of a wrong type", s.Problems)
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	s := parse(`{"disks":[{"size":0,"type":"odd"}]}`)
	s.Require(cloud.BlocksAll, "region", s.Region, "name it, e.g. eu")
	s.OneOf("disks[0].type", s.Disks[0].Type, "fast", "slow")
	s.OneOf("empty", "", "fast")
	s.AtLeast("disks[0].size", &s.Disks[0].Size, 1)
	s.AtLeast("none", nil, 1)
	want := []cloud.Problem{
		{Severity: cloud.BlocksAll, Field: "providerSpec.region", Message: "is missing; name it, e.g. eu"},
		{Field: "providerSpec.disks[0].type", Message: `is "odd" and has to be one of fast, slow`},
		{Field: "providerSpec.disks[0].size", Message: "is 0 and has to be at least 1"},
	}
	want[1].Severity, want[2].Severity = cloud.BlocksCreate, cloud.BlocksCreate
	if !slices.Equal(s.Found(), want) {
		t.Errorf("got %v, want %v", s.Found(), want)
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tags          map[string]string
		cluster, role func(string) bool
		want          []string
	}{
		"Both": {
			map[string]string{"c/a": "1", "r/n": "1", "x": "1"},
			driverkit.Begins("c/"), driverkit.Begins("r/"),
			[]string{"c/a", "r/n"},
		},
		"NoRole": {map[string]string{"c/a": "1"}, driverkit.Begins("c/"), driverkit.Begins("r/"), nil},
		"NoName": {map[string]string{"c/": "1", "r/n": "1"}, driverkit.Begins("c/"), driverkit.Begins("r/"), nil},
		"Contains": {
			map[string]string{"x-c/": "", "r/": ""},
			driverkit.Contains("c/"), driverkit.Contains("r/"),
			[]string{"r/", "x-c/"},
		},
	} {
		if got := driverkit.Ownership(c.tags, c.cluster, c.role); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestSpecOf(t *testing.T) {
	t.Parallel()
	good, bad := parse(`{"region":"eu"}`), parse(`{"region":"eu"}`)
	bad.Problems.Add(cloud.BlocksAll, "region", "does not exist; name another")
	for name, c := range map[string]struct {
		spec any
		ok   bool
	}{"Good": {good, true}, "Foreign": {"text", false}, "Bad": {bad, false}} {
		got, err := driverkit.SpecOf[*spec]("op", cloud.Class{Spec: c.spec})
		if (err == nil) != c.ok || c.ok && got != good || !c.ok && cloud.CodeOf(err) != cloud.Invalid {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestFormsOfValues(t *testing.T) {
	t.Parallel()
	s := parse(`{}`)
	three := int32(3)
	s.Between("n", &three, 1, 2)
	s.Between("none", nil, 1, 2)
	price := regexp.MustCompile(`\d+`)
	s.Matches(cloud.BlocksAll, "price", "5x", price, "a number, e.g. 5")
	s.Matches(cloud.BlocksAll, "good", "5", price, "a number")
	s.Distinct("disks", "name", []string{"a", "", "b", "", "a"}, "rename one")
	s.WarnIf(true, "old", "has no effect; remove it")
	s.WarnIf(false, "old", "is used")
	s.BlockIf(false, "old", "is used")
	want := []cloud.Problem{
		{Severity: cloud.BlocksCreate, Field: "providerSpec.n", Message: "is 3 and has to be from 1 to 2"},
		{Severity: cloud.BlocksAll, Field: "providerSpec.price", Message: `is "5x" and has to be a number, e.g. 5`},
		{
			Severity: cloud.BlocksCreate, Field: "providerSpec.disks[4].name",
			Message: `is "a", as that of another entry; rename one`,
		},
		{Severity: cloud.Warning, Field: "providerSpec.old", Message: "has no effect; remove it"},
	}
	if !slices.Equal(s.Found(), want) {
		t.Errorf("got %v, want %v", s.Found(), want)
	}
	var unset *int32
	driverkit.Default(&unset, 7)
	set := &three
	driverkit.Default(&set, 7)
	if *unset != 7 || *set != 3 {
		t.Errorf("got %d and %d, want the default only where there is no value", *unset, *set)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	s := driverkit.Secret{Credentials: cloud.Credentials{
		"old": []byte(" x\n"), "password": []byte(" y \r\n"), "empty": nil,
	}}
	if got := s.First("new", "old"); got != "x" {
		t.Errorf("got %q", got)
	}
	if got := s.First("empty", "old") + s.First("none"); got != "" {
		t.Errorf("got %q, want an entry that is there to count although it is empty", got)
	}
	if got := s.Password("password"); got != " y " {
		t.Errorf("got %q", got)
	}
	s.Require("user", "", "the name of the user")
	s.Require("password", "y", "the password")
	want := []cloud.Problem{
		{Severity: cloud.BlocksAll, Field: "secret.user", Message: "is missing; put the name of the user there"},
	}
	if !slices.Equal(s.Problems, want) {
		t.Errorf("got %v, want %v", s.Problems, want)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`i-[0-9]+`)
	for text, want := range map[string]string{
		"x:///zone/i-1": "i-1", "x://i-1": "i-1", "x:///zone/i-1x": "", "x:///zone/": "", "y:///zone/i-1": "",
	} {
		if got, ok := driverkit.DecodeProviderID(text, "x://", id); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v", text, got, ok)
		}
	}
	if got, ok := driverkit.VolumeHandle(cloud.Volume{Driver: "csi", Handle: "v"}, "csi", "tree"); got != "v" || !ok {
		t.Errorf("got %q, %v", got, ok)
	}
	if _, ok := driverkit.VolumeHandle(cloud.Volume{Driver: "other", Handle: "v"}, "csi"); ok {
		t.Error("a volume of another driver is none of this cloud's")
	}
	if got := driverkit.MiB(2048) + " " + driverkit.MiB(1536); got != "2Gi 1536Mi" {
		t.Errorf("got %s", got)
	}
	for name, want := range map[string]string{"x86_64": "amd64", "AArch64": "arm64", "s390": ""} {
		if got := driverkit.Architecture(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
