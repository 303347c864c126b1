package vsphere_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
)

// cluster is the compute cluster of newSpec's pool.
func (s *vcsim) cluster(t testing.TB) *object.ClusterComputeResource {
	t.Helper()
	cluster, err := s.Finder.ClusterComputeResource(t.Context(), "DC0_C0")
	must(t, err)
	return cluster
}

// configureCluster changes the compute cluster as its administrator.
func (s *vcsim) configureCluster(t testing.TB, change types.ClusterConfigSpecEx) {
	t.Helper()
	task, err := s.cluster(t).Reconfigure(t.Context(), &change, true)
	must(t, err)
	must(t, task.Wait(t.Context()))
}

// rules are the DRS rules of the compute cluster and how many VMs each has.
func (s *vcsim) rules(t testing.TB) map[string]int {
	t.Helper()
	config, err := s.cluster(t).Configuration(t.Context())
	must(t, err)
	all := map[string]int{}
	for _, r := range config.Rule {
		all[r.GetClusterRuleInfo().Name] = 0
		if rule, ok := r.(*types.ClusterAntiAffinityRuleSpec); ok {
			all[rule.Name] = len(rule.Vm)
		}
	}
	return all
}

// workers is the VM group of the compute cluster.
const workers = "workers"

// makeGroup makes the VM group.
func (s *vcsim) makeGroup(t testing.TB) {
	t.Helper()
	s.configureCluster(t, types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{{
		ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
		Info:            &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: workers}},
	}}})
}

// group is how many VMs the VM group has.
func (s *vcsim) group(t testing.TB) int {
	t.Helper()
	config, err := s.cluster(t).Configuration(t.Context())
	must(t, err)
	for _, g := range config.Group {
		if group, ok := g.(*types.ClusterVmGroup); ok && group.Name == workers {
			return len(group.Vm)
		}
	}
	t.Fatalf("there is no group %s", workers)
	return 0
}

// TestAntiAffinity: the rule is made with the second VM, has all of the group, and goes
// with the last but one.
func TestAntiAffinity(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.makeGroup(t)
	a, c := s.open(t, class("apart", spec{"antiAffinityGroup": "pool-1", "vmGroup": "workers"}))
	other, oc := s.open(t, class("other", spec{"antiAffinityGroup": "pool-2"}))
	_, err := s.finish(t, other, ask("other", oc))
	must(t, err)
	const rule = "mcm.c1.pool-1"
	var all []*cloud.CreateRequest
	for i, name := range []string{"m-1", "m-2", "m-3"} {
		r := ask(name, c)
		_, err := s.finish(t, a, r)
		must(t, err)
		all = append(all, r)
		want := i + 1
		if got, there := s.rules(t)[rule]; there != (want > 1) || there && got != want {
			t.Errorf("after %d VMs the rule has %d (%v)", want, got, there)
		}
		if got := s.group(t); got != want {
			t.Errorf("after %d VMs the group has %d", want, got)
		}
	}
	for i, r := range all {
		s.gone(t, a, r.Ref)
		want := len(all) - 1 - i
		if got, there := s.rules(t)[rule]; there != (want > 1) || there && got != want {
			t.Errorf("with %d VMs left the rule has %d (%v)", want, got, there)
		}
		if got := s.group(t); got != want {
			t.Errorf("with %d VMs left the group has %d", want, got)
		}
	}
	s.gone(t, other, ask("other", oc).Ref)
}

// TestAntiAffinityAtOnce makes and removes the VMs of a group at the same time: no VM is
// missing in the rule, and it does not stay behind.
func TestAntiAffinityAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.makeGroup(t)
	a, c := s.open(t, class("apart", spec{"antiAffinityGroup": "g", "vmGroup": "workers"}))
	names := []string{"m-1", "m-2", "m-3", "m-4", "m-5"}
	each := func(do func(*cloud.CreateRequest)) {
		var all sync.WaitGroup
		for _, name := range names {
			all.Go(func() { do(ask(name, c)) })
		}
		all.Wait()
	}
	each(func(r *cloud.CreateRequest) {
		if _, err := s.finish(t, a, r); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	})
	if got := s.rules(t); got["mcm.c1.g"] != len(names) || s.group(t) != len(names) {
		t.Errorf("got rules %v, a group of %d, want %d VMs in each", got, s.group(t), len(names))
	}
	each(func(r *cloud.CreateRequest) { s.gone(t, a, r.Ref) })
	if got := s.rules(t); len(got) != 0 || s.group(t) != 0 {
		t.Errorf("got rules %v, a group of %d, want nothing", got, s.group(t))
	}
}

// TestAntiAffinityRefused: what cannot be is found before anything is made.
func TestAntiAffinityRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.configureCluster(t, types.ClusterConfigSpecEx{RulesSpec: []types.ClusterRuleSpec{{
		ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
		Info:            &types.ClusterAffinityRuleSpec{ClusterRuleInfo: types.ClusterRuleInfo{Name: "mcm.c1.taken"}},
	}}})
	alone := spec{"resourcePool": nil, "hostSystem": "DC0_H0/DC0_H0"}
	for field, edits := range map[string]spec{
		"vmGroup":           {"vmGroup": "nobody's"},
		"antiAffinityGroup": {"antiAffinityGroup": "taken"},
	} {
		a, c := s.open(t, class("apart", edits))
		s.refusesCreate(t, a, c, field)
		maps.Copy(edits, alone)
		_, c = s.open(t, class("apart", edits))
		s.refusesCreate(t, a, c, field)
	}
}

// TestRuleThatMayNotChange: VMs go although the rule cannot be changed, and the rule goes
// with the next VM of the group.
func TestRuleThatMayNotChange(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("apart", spec{"antiAffinityGroup": "g"}))
	make2 := func() {
		for _, name := range []string{"m-1", "m-2"} {
			_, err := s.finish(t, a, ask(name, c))
			must(t, err)
		}
	}
	privilege := vcentertest.Privileges()["ReconfigureComputeResource_Task"]
	for _, joins := range []bool{true, false} {
		make2()
		s.Deny(privilege, true)
		s.gone(t, a, ask("m-1", c).Ref)
		if joins {
			s.gone(t, a, ask("m-2", c).Ref)
		}
		if _, there := s.rules(t)["mcm.c1.g"]; !there {
			t.Fatal("the rule has gone, want one that stays behind")
		}
		s.Deny(privilege, false)
		if joins {
			_, err := s.finish(t, a, ask("m-3", c))
			must(t, err)
		} else {
			s.gone(t, a, ask("m-2", c).Ref)
		}
		if got := s.rules(t); len(got) != 0 {
			t.Errorf("joins %v: got rules %v, want none", joins, got)
		}
		s.gone(t, a, ask("m-3", c).Ref)
	}
}

// TestSlowFolder: while a VM that is to join its rule waits for the scan of the folder, others
// leave theirs.
func TestSlowFolder(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("apart", spec{"antiAffinityGroup": "g"}))
	_, err := s.finish(t, a, ask("m-1", c))
	must(t, err)
	r := ask("m-2", c)
	vm, err := a.Create(t.Context(), *r)
	must(t, err)
	s.advance(t, vm.RetryAfter)
	scanned, read := make(chan struct{}), make(chan struct{})
	joins := false // a look at the cluster precedes the scan
	s.proxy.Inject(cloudtest.Fault{
		Kind: cloudtest.Delay, Match: func(c cloudtest.Call) bool {
			joins = joins || strings.Contains(string(c.Body), "configurationEx")
			return joins && strings.Contains(string(c.Body), "childEntity")
		},
		Met: func(cloudtest.Call) { close(scanned); <-read },
	})
	var joining sync.WaitGroup
	joining.Go(func() {
		if _, err := s.finish(t, a, r); err != nil {
			t.Error(err)
		}
	})
	<-scanned
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 { // power off, leave and destroy
		_, err := a.Delete(ctx, ask("m-1", c).Ref)
		if err != nil {
			t.Errorf("delete during the scan: %v", err)
		}
		s.advance(t, 0)
	}
	close(read)
	joining.Wait()
	for _, name := range []string{"m-1", "m-2"} {
		s.gone(t, a, ask(name, c).Ref)
	}
}

// TestRuleFails: what vCenter says about a rule that it does not make is told, and the
// rule is asked for again.
func TestRuleFails(t *testing.T) {
	t.Parallel()
	s := start(t)
	a, c := s.open(t, class("apart", spec{"antiAffinityGroup": "g"}))
	_, err := s.finish(t, a, ask("m-1", c))
	must(t, err)
	s.FailTask("ClusterComputeResource.reconfigureCluster", &types.InvalidState{})
	r := ask("m-2", c)
	_, err = s.finish(t, a, r)
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Reason != "InvalidState" {
		t.Errorf("got %v, want the fault of the task", err)
	}
	if _, err := s.finish(t, a, r); err != nil || s.rules(t)["mcm.c1.g"] != 2 {
		t.Errorf("again: %v, rules %v, want both VMs in the rule", err, s.rules(t))
	}
	for _, name := range []string{"m-1", "m-2"} {
		s.gone(t, a, ask(name, c).Ref)
	}
}
