// Package play runs the real controllers in a world that follows from a seed:
// one scheduler decides, step by step, which event a cache shows, which
// reconcile goes on, what time it is and what goes wrong. Equal seeds give equal
// runs.
package play

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/invariant"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/plan"
)

type (
	// Plan is what is to happen to a world.
	Plan = plan.Plan
	// Pool is a MachineDeployment of a plan.
	Pool = plan.Pool
	// Event is something of a plan that goes wrong, or that a user does.
	Event = plan.Event
)

// World is all there is.
type World struct {
	Control, Target *model.Server // the same one, or two
	Cloud           *sim.Cloud

	seed    uint64
	plan    Plan
	rng     *rand.Rand
	now     time.Time
	scheme  *runtime.Scheme
	driver  *sim.Driver
	parsed  map[string]parsed
	check   *invariant.Checker
	timers  timers
	uids    uint64
	steps   int
	healing bool // faults have stopped

	homes     []*home // Control's is the first
	processes []*process
	started   int
	contested bool // two managers have led at once
	running   *task
	idle      []*coroutine      // that have ended their tasks
	writer    *invariant.Writer // who acts right now; nil: no manager

	weather  weather
	kubelets map[string]*kubelet // by id of the VM
	news     []sim.Resource      // changes in the cloud that were not looked at yet
	pods     workload
	ambush   []func(machine string) // act when the next VM is made
	moving   bool                   // clusterctl is at work
	lastMove time.Time              // when clusterctl last began or ended
	lives    *home                  // where the Cluster is, or is to be
	adopted  int                    // VMs that a user had taken over
	rezoned  [classes]int           // how often the zones of a class were changed
	away     int                    // objects that a user is copying

	wasCopied map[string]bool // owner ids of machines that a user has copied

	restored bool                          // an API server was
	gone     map[string]*machinev1.Machine // that a restore does not know, by owner id

	broken  *Violation
	lines   []string
	verbose bool
	writes  int // of managers to API servers
	given   int // machines that managers deleted although their VMs ran
}

// Violation is an invariant that did not hold.
//
//nolint:errname // it is called so everywhere
type Violation struct {
	Rule string
	Err  error
	At   time.Time
	Step int
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s, at %s (step %d): %v", v.Rule, v.At.Format(time.TimeOnly), v.Step, v.Err)
}

// epoch is when every run begins.
func epoch() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// Now is the world's time.
func (w *World) Now() time.Time { return w.now }

// clockOf is the world's time as controllers read it.
type clockOf struct{ world *World }

func (c clockOf) Now() time.Time                  { return c.world.now }
func (c clockOf) Since(t time.Time) time.Duration { return c.world.now.Sub(t) }

// newUID makes the UID of an object.
func (w *World) newUID() types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(w.seed), w.uids))
}

// trace notes what happens, if anybody wants to read it.
func (w *World) trace(format string, args ...any) {
	if w.verbose {
		w.lines = append(w.lines, fmt.Sprintf("%s %5d ", w.now.Format("15:04:05.000"), w.steps)+fmt.Sprintf(format, args...))
	}
}

// violate notes the first invariant that does not hold.
func (w *World) violate(rule string, err error) {
	if w.broken == nil {
		w.broken = &Violation{Rule: rule, Err: err, At: w.now, Step: w.steps}
		w.trace("VIOLATION of %s: %v", rule, err)
	}
}

// timer is something that happens at a time.
type timer struct {
	at  time.Time
	seq int
	do  func()
}

// timers are sorted by time, equal times by when they were set.
type timers struct {
	all []timer
	seq int
}

func (t *timers) add(at time.Time, do func()) {
	t.seq++
	i, _ := slices.BinarySearchFunc(t.all, at, func(o timer, at time.Time) int {
		if o.at.After(at) {
			return 1
		}
		return -1
	})
	t.all = slices.Insert(t.all, i, timer{at, t.seq, do})
}

// after has something happen in a while.
func (w *World) after(d time.Duration, do func()) { w.timers.add(w.now.Add(d), do) }

// between is a random duration.
func (w *World) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1))
}

// chance is true with that probability.
func (w *World) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// as does something in the name of somebody who is none of ours.
func (w *World) as(do func()) {
	was := w.writer
	w.writer = nil
	do()
	w.writer = was
}

// Report is how a run went.
type Report struct {
	Seed      uint64
	Given     int // machines that managers deleted although their VMs ran
	Steps     int
	Violation *Violation
	Trace     []string
	Objects   string
}

// report sums the run up.
func (w *World) report() Report {
	r := Report{Seed: w.seed, Given: w.given, Steps: w.steps, Violation: w.broken, Trace: w.lines}
	if w.broken != nil && w.verbose {
		r.Objects = w.objects()
	}
	return r
}

// objects are all objects there are, in a few words each.
func (w *World) objects() string {
	var b strings.Builder
	for _, h := range w.homes {
		for _, k := range h.server.Kinds() {
			for _, o := range k.All() {
				fmt.Fprintln(&b, h.name, invariant.Describe(o))
			}
		}
	}
	if w.homeOf(w.Target) == nil {
		for _, k := range w.Target.Kinds() {
			for _, o := range k.All() {
				fmt.Fprintln(&b, "target", invariant.Describe(o))
			}
		}
	}
	for _, r := range w.Cloud.VMs() {
		fmt.Fprintf(&b, "VM %s %s %s in %s\n", r.ID, r.Name(), r.VM.State, r.Zone)
	}
	return b.String()
}

// recorder notes Events in the trace.
type recorder struct {
	world     *World
	process   *process
	component string
}

// Event notes an Event.
func (r recorder) Event(o runtime.Object, kind, reason, message string) {
	name := ""
	if m, err := meta.Accessor(o); err == nil {
		name = m.GetName()
	}
	r.world.trace("%s tells of %s: %s %s %s", r.process.name, name, kind, reason, message)
}

// Eventf notes an Event.
func (r recorder) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	r.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf notes an Event.
func (r recorder) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Event(o, kind, reason, fmt.Sprintf(format, args...))
}
