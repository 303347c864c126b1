// Package invariant says what must be true of machines, whatever happens
// (docs/proof.md). Each invariant is one function with a name. They look at what
// has just changed, so that they can be checked after every step.
package invariant

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// World is what is looked at.
type World struct {
	Control, Target *apiserver.Server
	Homes           []*apiserver.Server // management clusters; Control is one of them
	Cloud           *sim.Cloud
	Account         string // of the managers in the cloud
	Now             func() time.Time
	// Violate is called for an invariant that does not hold.
	Violate func(rule string, err error)
	// Health reports whether a node is healthy right now.
	Health func(node string) bool
	// ReactionTime is how much later than something happens a manager may still act
	// as if it had not: its health timeout and the longest lag of its cache.
	ReactionTime time.Duration
	// Lag is how far caches can be behind.
	Lag time.Duration
	// NativeRuns is true where the controllers of the native API run.
	NativeRuns bool
	// Lags is true where a cache may be behind for longer than moments.
	Lags bool
	// HealthTimeout is how long a machine may be unhealthy.
	HealthTimeout time.Duration
	// DrainTimeout is how long a drain may take.
	DrainTimeout time.Duration
}

// Writer is a manager's reconcile that has just had an effect. A nil Writer is
// somebody else.
type Writer struct {
	Process, Controller string
	Key                 types.NamespacedName
	Began               time.Time // the reconcile may have read what was true then
	Late                bool      // the request was lost and arrives now
	Home                *apiserver.Server
}

func (w *Writer) String() string {
	return fmt.Sprintf("%s's controller %s, working on %s since %s", w.Process, w.Controller, w.Key,
		w.Began.Format(time.TimeOnly))
}

// Rule is one invariant. Only one of its functions is set.
type Rule struct {
	Name string
	// Object is asked about each change in an API server.
	Object func(*Checker, apiserver.Change, *Writer) error
	// Resource is asked about each change in the cloud.
	Resource func(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error
	// AtRest is asked when trouble has ended long ago.
	AtRest func(*Checker) error
}

// Rules are all invariants.
func Rules() []Rule { return slices.Concat(nativeRules(), clusterAPIRules(), restoreRules()) }

// nativeRules are those of the native API, and of both.
func nativeRules() []Rule {
	return []Rule{
		{Name: "AtMostOneVM", Resource: atMostOneVM},
		{Name: "KeptDisksStay", Resource: keptDisksStay},
		{Name: "IntentFirst", Resource: intentFirst},
		{Name: "NoSecondVM", Resource: noSecondVM},
		{Name: "InZoneOfClass", Resource: inZoneOfClass},
		{Name: "OnlyOrphansCollected", Resource: onlyOrphansCollected},
		{Name: "Drained", Resource: drained},
		{Name: "NothingLeftBehind", Object: nothingLeftBehind},
		{Name: "ProviderIDStays", Object: providerIDStays},
		{Name: "ClassStays", Object: classStays},
		{Name: "NeverTooManyMachines", Object: neverTooManyMachines},
		{Name: "WithinSurge", Object: withinSurge},
		{Name: "HealthyMachinesStay", Object: healthyMachinesStay},
		{Name: "FailedForAReason", Object: failedForAReason},
		{Name: "GivenUpInTime", Object: givenUpInTime},
		{Name: "Available", Object: available},
		{Name: "PausedRolloutStays", Object: pausedRolloutStays},
		{Name: "NothingReplacedInAStorm", Object: nothingReplacedInAStorm},
		{Name: "EverythingSettles", AtRest: everythingSettles},
		{Name: "NoOrphans", AtRest: noOrphans},
	}
}

// Checker checks the invariants of a world.
type Checker struct {
	World
	rules     []Rule
	resources map[string]sim.Resource // as last seen, by id

	paused    map[types.UID]pause     // rollouts of deployments
	wanted    map[types.UID][]bounds  // of sets and deployments, over time
	left      map[types.UID]departure // of machines that were available, and by whom
	ceased    map[types.UID]departure // of machines that counted as replicas, unless their set deleted them
	ailing    map[string]time.Time    // when a node was last seen unhealthy, by name
	removed   map[string]time.Time    // when the Machine of an owner id went
	bound     map[string]time.Time    // when the Machine of an owner id got its providerID
	taken     map[string]time.Time    // when somebody else took the Machine of an owner id away, and its VM stayed
	goingThen map[string]bool         // of these owner ids, those whose Machine was being deleted
	unhealthy map[string]bool         // nodes as they last were
	deleted   map[string]time.Time    // since when the machine of an owner id is being deleted
	undeleted map[string]undeletion   // of owner ids whose machine was there again without its deletion
	made      map[string]time.Time    // when the Machine of an owner id, an orphan's until then, was last created
	put       map[types.UID]time.Time // when somebody else created a Machine, or changed its labels

	identities map[types.UID]string    // the first owner ids of objects
	stripped   map[types.UID]time.Time // when somebody else last took annotations away from an object

	active   map[place]presence   // where Clusters of Cluster API live, and do not any more
	dropped  map[string]time.Time // when a zone ceased to be one of a class, by class and zone
	retained map[string]bool      // owner ids of VMs that were left on purpose
	unasked  map[string]bool      // resources that came about by a request that arrived late, or by somebody else

	restores  int
	orphaned  map[string]int  // VMs that have lost their machines, and by which restore
	collected map[string]bool // of these, those that a collector has removed without approval
	decided   decided
}

// bounds are what a set or a deployment asks for from then on.
type bounds struct {
	at        time.Time
	most      int // machines
	least     int // available ones
	unlimited bool
}

// departure is when a machine ceased to be available.
type departure struct {
	at   time.Time
	pool types.UID
	ours bool
}

// New returns a Checker that has seen nothing.
func New(w World) *Checker {
	return &Checker{
		World: w, rules: Rules(), resources: map[string]sim.Resource{},
		paused: map[types.UID]pause{}, wanted: map[types.UID][]bounds{},
		left: map[types.UID]departure{}, ceased: map[types.UID]departure{},
		ailing: map[string]time.Time{}, removed: map[string]time.Time{}, bound: map[string]time.Time{},
		taken: map[string]time.Time{}, goingThen: map[string]bool{},
		put: map[types.UID]time.Time{}, made: map[string]time.Time{},
		identities: map[types.UID]string{}, stripped: map[types.UID]time.Time{},
		unhealthy: map[string]bool{}, deleted: map[string]time.Time{}, undeleted: map[string]undeletion{},
		active: map[place]presence{}, dropped: map[string]time.Time{},
		retained: map[string]bool{}, unasked: map[string]bool{},
		orphaned: map[string]int{}, collected: map[string]bool{},
		decided: decided{approved: map[string]bool{}, kept: map[string]bool{}},
	}
}

// Object checks a change in an API server.
func (c *Checker) Object(change apiserver.Change, w *Writer) {
	for _, r := range c.rules {
		if r.Object == nil {
			continue
		}
		if err := r.Object(c, change, w); err != nil {
			c.Violate(r.Name, c.explain(err, w))
		}
	}
	c.note(change, w)
}

// Resource checks a change in the cloud.
func (c *Checker) Resource(now sim.Resource, w *Writer) {
	var before *sim.Resource
	if known, found := c.resources[now.ID]; found {
		before = &known
	}
	for _, r := range c.rules {
		if r.Resource == nil {
			continue
		}
		if err := r.Resource(c, before, now, w); err != nil {
			c.Violate(r.Name, c.explain(err, w))
		}
	}
	c.resources[now.ID] = now
	if before == nil && (w == nil || w.Late) {
		c.unasked[now.ID] = true
	}
}

// AtRest checks what must be true when trouble has ended long ago.
func (c *Checker) AtRest() {
	for _, r := range c.rules {
		if r.AtRest == nil {
			continue
		}
		if err := r.AtRest(c); err != nil {
			c.Violate(r.Name, err)
		}
	}
}

// Settled reports whether that is true already.
func (c *Checker) Settled() bool {
	for _, r := range c.rules {
		if r.AtRest != nil && r.AtRest(c) != nil {
			return false
		}
	}
	return true
}

func (c *Checker) explain(err error, w *Writer) error {
	if w == nil {
		return err
	}
	return fmt.Errorf("%w; by %s", err, w)
}

// since returns the loosest bounds of what was asked for since then. What changed at that very moment may
// have changed after a reconcile had read it.
func (c *Checker) since(uid types.UID, began time.Time) (b bounds, known bool) {
	all := c.wanted[uid]
	for _, w := range slices.Backward(all) {
		if !known {
			b, known = w, true
		}
		b.most, b.least, b.unlimited = max(b.most, w.most), min(b.least, w.least), b.unlimited || w.unlimited
		if w.at.Before(began) {
			break
		}
	}
	return b, known
}

// ailed reports whether a node was unhealthy so lately that a manager may still
// act upon it.
func (c *Checker) ailed(node string) bool {
	if node == "" || !c.Health(node) {
		return true
	}
	at, ever := c.ailing[node]
	return ever && c.Now().Sub(at) < c.ReactionTime
}

// machines are the Machines there are.
func (c *Checker) machines() []*machinev1.Machine {
	var all []*machinev1.Machine
	for _, o := range c.Control.KindOf(&machinev1.Machine{}).All() {
		all = append(all, o.(*machinev1.Machine))
	}
	return all
}

// machineOf is the Machine of an owner id; nil if there is none.
func (c *Checker) machineOf(id string) *machinev1.Machine {
	for _, m := range c.machines() {
		if c.ownerID(m) == id {
			return m
		}
	}
	return nil
}

// setOf is the set that controls a Machine; nil if there is none.
func (c *Checker) setOf(m *machinev1.Machine) *machinev1.MachineSet {
	return lookup[*machinev1.MachineSet](c, m, machinev1.MachineSetKind)
}

// deploymentOf is the deployment that controls a set; nil if there is none.
func (c *Checker) deploymentOf(s *machinev1.MachineSet) *machinev1.MachineDeployment {
	return lookup[*machinev1.MachineDeployment](c, s, machinev1.MachineDeploymentKind)
}

// poolOf is the UID of a Machine's deployment, else of its set.
func (c *Checker) poolOf(m *machinev1.Machine) types.UID {
	s := c.setOf(m)
	if s == nil {
		return ""
	}
	if d := c.deploymentOf(s); d != nil {
		return d.UID
	}
	return s.UID
}

func lookup[T client.Object](c *Checker, o client.Object, kind string) T {
	var none T
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != kind {
		return none
	}
	found, ok := c.Control.KindOf(none).Look(types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}).(T)
	if !ok || found.GetUID() != ref.UID {
		return none
	}
	return found
}
