package vsphere_test

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestTagsAreSetOnceTheMarkHasThem: vCenter takes a change of the mark and may still fail
// to make it.
func TestTagsAreSetOnceTheMarkHasThem(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, was := s.open(t, class("was", tagged("team", "a", "stage", "test")))
	r := ask("m", was)
	if _, err := s.finish(t, a, r); err != nil {
		t.Fatal(err)
	}
	_, is := s.open(t, class("was", tagged("team", "b")))
	r.Class = is
	set := a.(cloud.TagSetter)
	s.FailTask("VirtualMachine.reconfigVm", &types.TaskInProgress{})
	for i, done := range []bool{false, false, true} {
		err := set.SetTags(t.Context(), r.Ref, []string{"stage"})
		if done != (err == nil) || !done && cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("call %d: got %v: the first change failed, and the second has just been asked for", i, err)
		}
		s.advance(t, 0)
	}
	for found, err := range a.List(t.Context(), is, cloud.KindVM) {
		must(t, err)
		if _, there := found.Tags["stage"]; there || found.Tags["team"] != "b" {
			t.Errorf("the VM has tags %v", found.Tags)
		}
	}
	s.gone(t, a, r.Ref)
}
