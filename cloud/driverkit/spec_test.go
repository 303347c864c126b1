package driverkit_test

import (
	"encoding/json"
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
