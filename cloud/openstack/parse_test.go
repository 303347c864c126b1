package openstack_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
)

// TestParse tries the tables of the conformance kit that need no cloud, also
// where there is none.
func TestParse(t *testing.T) {
	t.Parallel()
	d := openstack.NewDriver(openstack.Options{})
	for _, r := range rules() {
		_, problems := d.Parse(r.Class)
		found := r.Field == "" || slices.ContainsFunc(problems, func(p cloud.Problem) bool {
			return p.Field == r.Field && p.Severity >= r.Severity
		})
		blocked := slices.ContainsFunc(problems, func(p cloud.Problem) bool { return p.Severity > cloud.Warning })
		if accepted := r.Field == "" || r.Severity == cloud.Warning; !found || accepted && blocked {
			t.Errorf("%s: got %+v\nbecause: %s", r.Name, problems, r.Reason)
		}
	}
	for _, s := range samples() {
		c, problems := d.Parse(s.Class)
		if slices.ContainsFunc(problems, func(p cloud.Problem) bool { return p.Severity > cloud.Warning }) {
			t.Errorf("%s: %+v", s.Name, problems)
		}
		defaulted := s.Class
		if defaulted.Spec = s.Defaulted; len(s.Defaulted) == 0 {
			continue
		}
		if full, _ := d.Parse(defaulted); !reflect.DeepEqual(full, c) {
			t.Errorf("%s: the defaults are not MCM's:\n got %+v\nwant %+v", s.Name, c.Spec, full.Spec)
		}
	}
	for _, p := range providerIDs() {
		if id, ok := d.DecodeProviderID(p.Value); id != p.ID || ok != (p.ID != "") {
			t.Errorf("%s: got %q, %v, want %q", p.Form, id, ok, p.ID)
		}
	}
	for _, v := range volumes() {
		if id, ok := d.VolumeID(v.Volume); id != v.ID || ok != (v.ID != "") {
			t.Errorf("%s: got %q, %v, want %q", v.Name, id, ok, v.ID)
		}
	}
}
