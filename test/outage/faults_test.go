package outage_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// Each fault has a name, which is that of its recording, begins after a quiet time, and lasts
// as long as its alert needs.
var faults = map[string]func(r *recording){
	"healthy-day":     healthyDay,
	"no-leader":       noLeader,
	"frozen":          frozen,
	"outage":          zoneOutage,
	"create-failing":  createFailing,
	"replace-loop":    replaceLoop,
	"join-failing":    joinFailing,
	"slow-join":       slowJoin,
	"delete-stuck":    deleteStuck,
	"rollout-stuck":   rolloutStuck,
	"set-frozen":      setFrozen,
	"credentials":     credentials,
	"orphan-surge":    orphanSurge,
	"hold-unanswered": holdUnanswered,
}

// TestRecordings: the metrics of the manager on a healthy day and in each fault are those that
// the alerts are tested with. It is not parallel, since one counter is the whole process's.
//
//nolint:paralleltest // see above
func TestRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the days that are played here")
	}
	all := exports{}
	all.add(elsewhere(t))
	for name, play := range faults {
		t.Run(name, func(t *testing.T) {
			r := recordingOf(t, newEnv(t, options()))
			for i, zone := range zones() {
				r.pool(fmt.Sprintf("pool-%d", i), zone, 4)
			}
			r.pass(20 * time.Minute)
			play(r)
			r.compare(name)
			maps.Copy(all, r.exports)
		})
	}
	all.compare(t)
}

// healthyDay has what happens without a fault that needs a person: pools grow, shrink and roll, a
// VM is lost, another has no machine, and the manager is replaced.
func healthyDay(r *recording) {
	r.pass(time.Hour)
	r.scale("pool-0", 6)
	r.pass(time.Hour)
	r.roll("pool-1", "next")
	r.pass(2 * time.Hour)
	r.cloud.Terminate(r.vmsIn("sim-1c")[0].ID, "HardwareFailure")
	r.pass(2 * time.Hour)
	r.stray("stray")
	r.pass(2 * time.Hour)
	r.standby = true
	r.pass(2 * time.Minute)
	r.standby = false
	r.restart()
	r.pass(4 * time.Hour)
	r.scale("pool-2", 3)
	r.pass(2 * time.Hour)
	r.silent = one(r.nodes()[0])
	r.pass(3 * time.Hour)
	r.silent = none
	r.pass(6 * time.Hour)
}

func noLeader(r *recording) {
	r.standby = true
	r.pass(20 * time.Minute)
}

func frozen(r *recording) {
	r.refuses = func(c mirror.Call) error {
		if c.Read && c.Verb == "list" && c.Kind.Resource.Resource == "nodes" {
			return errors.New("connection refused")
		}
		return nil
	}
	r.pass(30 * time.Minute)
}

func zoneOutage(r *recording) {
	r.silent = cut("sim-1a")
	r.pass(time.Hour)
}

func createFailing(r *recording) {
	r.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Code: sim.CodeInsufficientCapacity})
	r.scale("pool-0", 6)
	r.pass(2 * time.Hour)
}

func joinFailing(r *recording) {
	known := map[string]bool{}
	for _, n := range r.nodes() {
		known[n] = true
	}
	r.silent = func(n *corev1.Node) bool { return !known[n.Name] }
	r.scale("pool-0", 7)
	r.pass(3 * time.Hour)
}

func slowJoin(r *recording) {
	r.cloud.Change(func(s *sim.Settings) { s.BootTime = sim.Duration(14 * time.Minute) })
	r.scale("pool-0", 6)
	r.pass(time.Hour)
}

func deleteStuck(r *recording) {
	r.cloud.AddFault(sim.Fault{Op: sim.OpDeleteVM, Code: sim.CodeInternalError})
	r.scale("pool-0", 3)
	r.pass(3 * time.Hour)
}

func rolloutStuck(r *recording) {
	r.roll("pool-1", "next")
	r.pass(time.Minute)
	r.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Code: sim.CodeQuotaExceeded})
	r.pass(4 * time.Hour)
}

// setFrozen has somebody create machines beside a set, while deletions are refused.
func setFrozen(r *recording) {
	r.refuses = func(c mirror.Call) error {
		if c.Verb == "delete" && c.Kind.Resource.Resource == "machines" {
			return errors.New("an admission webhook refuses the request")
		}
		return nil
	}
	var first *machinev1.Machine
	for _, m := range r.machines() {
		if m.Labels[machinev1.NameLabel] == "pool-0" && (first == nil || m.Name < first.Name) {
			first = m
		}
	}
	for n := range 5 {
		m := &machinev1.Machine{Spec: first.Spec}
		m.Name, m.Namespace, m.Labels = fmt.Sprintf("extra-%d", n), namespace, first.Labels
		m.Spec.ProviderID = ""
		r.create(m)
	}
	r.pass(30 * time.Minute)
}

// replaceLoop has a pool of one whose nodes break five minutes after they have joined.
func replaceLoop(r *recording) {
	r.scale("pool-0", 1)
	r.pass(20 * time.Minute)
	r.silent = func(n *corev1.Node) bool {
		return n.Labels[corev1.LabelTopologyZone] == "sim-1a" && !n.CreationTimestamp.IsZero() &&
			r.now.Sub(n.CreationTimestamp.Time) > 5*time.Minute
	}
	r.pass(3 * time.Hour)
}

func credentials(r *recording) {
	r.cloud.AddFault(sim.Fault{Op: "*", Code: sim.CodeAccessDenied})
	r.scale("pool-0", 6)
	r.pass(time.Hour)
}

func orphanSurge(r *recording) {
	for i := range 8 {
		r.stray(fmt.Sprintf("stray-%d", i))
	}
	r.pass(2 * time.Hour)
}

func holdUnanswered(r *recording) {
	r.stuck = map[string]bool{"machinedeployment": true}
	change(r, "pool-0", func(d *machinev1.MachineDeployment) {
		d.Annotations = map[string]string{machinev1.MigrationHoldAnnotation: "a-migration"}
	})
	r.pass(30 * time.Minute)
}

// change edits a MachineDeployment.
func change(r *recording, pool string, edit func(*machinev1.MachineDeployment)) {
	r.Helper()
	kind := r.server.KindOf(&machinev1.MachineDeployment{})
	found := kind.Look(types.NamespacedName{Namespace: namespace, Name: pool})
	d, ok := found.DeepCopyObject().(*machinev1.MachineDeployment)
	if !ok {
		r.Fatalf("no pool %s", pool)
	}
	edit(d)
	if _, err := r.server.Update("user", d, false); err != nil {
		r.Fatal(err)
	}
}

func (r *recording) scale(pool string, replicas int32) {
	r.Helper()
	change(r, pool, func(d *machinev1.MachineDeployment) { d.Spec.Replicas = replicas })
}

// roll gives a pool a class that is equal to its own.
func (r *recording) roll(pool, class string) {
	r.Helper()
	change(r, pool, func(d *machinev1.MachineDeployment) {
		c := classOf(d.Spec.Template.Spec.Class.Name)
		c.Name = class
		r.create(c)
		d.Spec.Template.Spec.Class.Name = class
	})
}

// stray is a VM with the cluster's tags and without a machine.
func (r *recording) stray(name string) {
	r.Helper()
	_, err := r.cloud.CreateVM(sim.Login{Account: "demo", Secret: "demo-secret"}, region, sim.VMInput{
		ClientToken: name, Zone: zones()[0], InstanceType: "small", Image: "linux-1", Tags: map[string]string{
			sim.NameTag: name, "kubernetes.io/cluster/outage": "1", "kubernetes.io/role/node": "1",
		},
	})
	if err != nil {
		r.Fatal(err)
	}
}

// nodes are the names of all Nodes.
func (r *recording) nodes() []string {
	var names []string
	for _, o := range r.server.KindOf(&corev1.Node{}).All() {
		names = append(names, o.GetName())
	}
	return names
}

func one(name string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return n.Name == name }
}

func none(*corev1.Node) bool { return false }
