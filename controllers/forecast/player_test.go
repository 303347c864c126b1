package forecast_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/forecast"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machinedeployment"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machineset"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// A player is an API server with a pool and its two controllers, and plays machines and nodes.
type player struct {
	*harness.Env
	key         client.ObjectKey
	deployments *machinedeployment.Controller
	sets        *machineset.Controller
	seen        map[string]bool // names of the machines that there were in the last run
	most, least int
	failing     string // machines of this class do not join
}

func newPlayer(t *testing.T, d *machinev1.MachineDeployment) *player {
	t.Helper()
	p := &player{
		Env: harness.New(t, harness.With(d), harness.Indexed(index.Control())), key: client.ObjectKeyFromObject(d),
	}
	cluster := &target.Cluster{Client: p.Client, Live: p.Client}
	p.deployments = machinedeployment.New(machinedeployment.Deps{
		Client: p.Client, Live: p.Client, Clock: p.Clock, Events: p.Events, Target: cluster,
		Joining: joining.Policy{Timeout: 3 * time.Second, Cycles: 2}, PauseFailing: true,
	})
	leases := fence.New(p.Clock, 24*time.Hour)
	leases.AcquiredReleased(p.Clock.Now())
	p.sets = machineset.New(machineset.Deps{
		Client: p.Client, Live: p.Client, Target: cluster, Clock: p.Clock, Fence: leases, Events: p.Events,
		SafetyEvents: p.Events, SafetyUp: 100, SafetyDown: 1, OvershootPeriod: time.Minute,
	})
	return p
}

// run lets everybody work until neither controller nor machine writes any more.
func (p *player) run() {
	p.Helper()
	p.most, p.least, p.seen = 0, 1<<30, map[string]bool{}
	for range 400 {
		p.Forget()
		p.Reconcile(p.deployments, p.key)
		p.look()
		for _, set := range p.observed().Sets {
			p.Reconcile(p.sets, client.ObjectKeyFromObject(&set))
			p.look()
		}
		for _, m := range p.observed().Machines {
			p.step(&m)
		}
		p.look()
		p.Heard()
		p.Advance(time.Second)
		if len(p.Writes()) == 0 {
			return
		}
	}
	p.Fatalf("never at rest: %v\n%s", p.Writes(), p.describe())
}

// look notes which machines there are.
func (p *player) look() {
	machines, available := p.observed().Machines, 0
	for i := range machines {
		p.seen[machines[i].Name] = true
		if machines[i].DeletionTimestamp.IsZero() && rollout.IsAvailable(&machines[i]) {
			available++
		}
	}
	p.most, p.least = max(p.most, len(machines)), min(p.least, available)
}

// step lets a machine and its node take a step.
func (p *player) step(m *machinev1.Machine) {
	node := harness.Find[corev1.Node](p.Cluster, client.ObjectKey{Name: "node-" + m.Name})
	phase := m.Status.CurrentStatus.Phase
	switch {
	case !m.DeletionTimestamp.IsZero():
		if node != nil {
			p.Delete(node)
		}
		p.RemoveFinalizers(m)
	case phase == "":
		harness.Edit(p.Cluster, m, func(m *machinev1.Machine) {
			machinev1.SetLabel(m, machinev1.NodeLabel, "node-"+m.Name)
			m.Status.CurrentStatus.Phase = machinev1.MachinePending
		})
	case phase == machinev1.MachinePending && m.Spec.Class.Name == p.failing:
		p.fail(m)
	case phase == machinev1.MachinePending:
		p.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "node-" + m.Name, Annotations: map[string]string{machinev1.NodeMachineAnnotation: m.Name},
		}})
		p.become(m, machinev1.MachineRunning, "")
	case node != nil:
		p.update(m, node)
	}
}

func (p *player) become(m *machinev1.Machine, phase machinev1.MachinePhase, reason string) {
	harness.Edit(p.Cluster, m, func(m *machinev1.Machine) {
		m.Status.CurrentStatus.Phase = phase
		if reason != "" {
			m.Status.Conditions = nodeCondition(reason)
		}
	})
}

// fail gives a machine up that did not join.
func (p *player) fail(m *machinev1.Machine) {
	harness.Edit(p.Cluster, m, func(m *machinev1.Machine) {
		m.Status.CurrentStatus.Phase = machinev1.MachineFailed
		m.Status.Conditions = []corev1.NodeCondition{{
			Type: machinev1.MachineJoined, Status: corev1.ConditionFalse, Reason: machinev1.ReasonFailedJoin,
			LastTransitionTime: metav1.NewTime(p.Clock.Now()),
		}}
	})
}

// update plays an update in place of a node that was selected.
func (p *player) update(m *machinev1.Machine, node *corev1.Node) {
	_, selected := node.Labels[machinev1.SelectedForUpdateLabel]
	phase := m.Status.CurrentStatus.Phase
	switch {
	case phase == machinev1.MachineInPlaceUpdating:
		harness.Edit(p.Cluster, node, func(n *corev1.Node) {
			n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful
			n.Status.Conditions = nodeCondition(machinev1.ReasonUpdateSuccessful)
		})
		p.become(m, machinev1.MachineInPlaceUpdateSuccessful, machinev1.ReasonUpdateSuccessful)
	case phase == machinev1.MachineInPlaceUpdateSuccessful:
		p.become(m, machinev1.MachineRunning, "")
	case selected && node.Labels[machinev1.UpdateResultLabel] == "":
		p.become(m, machinev1.MachineInPlaceUpdating, machinev1.ReasonReadyForUpdate)
	}
}

func (p *player) deployment() *machinev1.MachineDeployment {
	p.Helper()
	return harness.Get[machinev1.MachineDeployment](p.Cluster, p.key)
}

// change changes the pool as a person does.
func (p *player) change(what func(*machinev1.MachineDeployment)) {
	p.Helper()
	harness.Edit(p.Cluster, p.deployment(), func(d *machinev1.MachineDeployment) {
		d.Generation++
		what(d)
	})
}

func (p *player) observed() forecast.Observed {
	sets, machines := &machinev1.MachineSetList{}, &machinev1.MachineList{}
	p.List(sets)
	p.List(machines)
	slices.SortFunc(sets.Items, func(a, b machinev1.MachineSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return forecast.Observed{Sets: sets.Items, Machines: machines.Items}
}

// outcome is what has happened since before.
func (p *player) outcome(before forecast.Observed) forecast.Outcome {
	out := forecast.Outcome{Present: len(before.Machines), Most: p.most, Least: p.least}
	there := map[string]*machinev1.Machine{}
	now := p.observed().Machines
	for i := range now {
		there[now[i].Name] = &now[i]
	}
	for i := range before.Machines {
		old := &before.Machines[i]
		m := there[old.Name]
		delete(p.seen, old.Name)
		delete(there, old.Name)
		switch {
		case m == nil:
			out.Deleted = append(out.Deleted, old.Name)
		case metav1.GetControllerOf(m).UID != metav1.GetControllerOf(old).UID:
			out.Updated = append(out.Updated, m.Name)
		case !apiequality.Semantic.DeepEqual(m.Spec, old.Spec):
			out.Synced = append(out.Synced, m.Name)
		}
	}
	out.Created = len(there)
	for name := range p.seen {
		if there[name] == nil {
			out.Created++
			out.Discarded++
		}
	}
	slices.Sort(out.Deleted)
	return out
}

func (p *player) describe() string {
	var b strings.Builder
	now := p.observed()
	for _, set := range now.Sets {
		fmt.Fprintf(&b, "set %s class %s: %d asked, labels %v\n", set.Name, set.Spec.Template.Spec.Class.Name,
			set.Spec.Replicas, set.Labels)
	}
	for _, m := range now.Machines {
		fmt.Fprintf(&b, "machine %s class %s: %s %v\n", m.Name, m.Spec.Class.Name, m.Status.CurrentStatus.Phase, m.Labels)
	}
	return b.String()
}
