package explain

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Top is how pools are doing.
type Top struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Load   `json:"items"`
	Unread          []string `json:"unread,omitempty"`
	// Manager is what its metrics tell, if they were asked for.
	Manager *ManagerLoad `json:"manager,omitempty"`
}

// Load is how a pool is doing: a MachineDeployment, or a MachineSet of its own.
type Load struct {
	Object  Ref   `json:"object"`
	API     API   `json:"api"`
	Desired int32 `json:"desired"`
	Ready   int32 `json:"ready"`
	Updated int32 `json:"updated"` // of a MachineSet: all its machines
	// JoinP50 and JoinP95 are seconds from the creation of a machine to that of its Node, of
	// machines that have one; absent if none has.
	JoinP50 *float64 `json:"joinP50Seconds,omitempty"`
	JoinP95 *float64 `json:"joinP95Seconds,omitempty"`
	// Failed are machines with a Warning Event within loadPeriod. Gone are those that had an
	// Event then and do not exist any more: they were replaced, rolled or scaled away.
	Failed int `json:"failedLastHour"`
	Gone   int `json:"goneLastHour"`
	// Waiting are the machines that lack something, by reason, most first.
	Waiting []Waiting `json:"waiting,omitempty"`
}

// Waiting is how many machines of a pool wait for one reason.
type Waiting struct {
	Reason      string `json:"reason"`
	Machines    int    `json:"machines"`
	NeedsPerson bool   `json:"needsPerson"`
}

// ManagerLoad is what the metrics of a manager tell.
type ManagerLoad struct {
	QueueDepth     map[string]float64 `json:"queueDepth"`     // objects that wait, by queue
	ThrottledCalls map[string]float64 `json:"throttledCalls"` // or not answered; since its start, by provider
}

// loadPeriod is how far Top looks back, and how long most API servers keep Events.
const loadPeriod = time.Hour

// Top tells how pools are doing. Names of pools that do not exist are returned.
func (f *Facts) Top(names []string, selector labels.Selector) (Top, []string) {
	out := Top{TypeMeta: metav1.TypeMeta{APIVersion: Version, Kind: "Top"}, Items: []Load{}, Unread: f.Unread}
	missing := slices.Clone(names)
	for _, o := range sorted(f.Objects) {
		owner := f.owner(o)
		pool := o.Kind == KindDeployment || o.Kind == KindSet && (owner == nil || owner.Kind != KindDeployment)
		if !pool || len(names) > 0 && !slices.Contains(names, o.Name) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == o.Name })
		if selector == nil || selector.Matches(labels.Set(o.Labels)) {
			out.Items = append(out.Items, f.load(o))
		}
	}
	return out, missing
}

// load is how one pool is doing.
func (f *Facts) load(o *Object) Load {
	l := Load{Object: o.Ref, API: o.API, Desired: o.Desired, Ready: o.Ready, Updated: o.Updated}
	machines := f.machinesOf(o)
	if o.Kind == KindSet {
		l.Updated = int32(len(machines)) //nolint:gosec // a set has fewer than two thousand million
	}
	var joins []float64
	waiting := map[string]*Waiting{}
	for _, m := range machines {
		if n := f.node(m); n != nil && !n.CreationTimestamp.Time.Before(m.Created) { // those that were taken over had one
			joins = append(joins, n.CreationTimestamp.Sub(m.Created).Seconds())
		}
		found := f.Why(m).Missing
		if found == nil || found.beside {
			continue
		}
		w := waiting[found.Reason]
		if w == nil {
			w = &Waiting{Reason: found.Reason}
			waiting[found.Reason] = w
		}
		w.Machines++
		w.NeedsPerson = w.NeedsPerson || found.NeedsPerson
	}
	slices.Sort(joins)
	l.JoinP50, l.JoinP95 = quantile(joins, 0.5), quantile(joins, 0.95)
	for _, w := range waiting {
		l.Waiting = append(l.Waiting, *w)
	}
	slices.SortFunc(l.Waiting, func(a, b Waiting) int {
		return cmp.Or(b.Machines-a.Machines, cmp.Compare(a.Reason, b.Reason))
	})
	l.Failed, l.Gone = f.lately(o, machines)
	return l
}

// quantile is the smallest value that at least a share q of sorted values does not exceed.
func quantile(sorted []float64, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	return &sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// lately counts machines of a pool by the Events of the last hour. Names of machines begin with
// that of their set, so that those that are gone are known too.
func (f *Facts) lately(o *Object, machines []*Object) (failed, gone int) {
	exists := map[string]bool{}
	for _, m := range machines {
		exists[m.Name] = true
	}
	failures, others := map[string]bool{}, map[string]bool{}
	for i := range f.Events {
		e := &f.Events[i]
		about := e.InvolvedObject
		if !f.late(e) || about.Namespace != o.Namespace || !exists[about.Name] && !f.setOf(o, about) {
			continue
		}
		if e.Type == corev1.EventTypeWarning {
			failures[about.Name] = true
		}
		if !exists[about.Name] {
			others[about.Name] = true
		}
	}
	return len(failures), len(others)
}

// late reports whether an Event is about a machine and of the last hour.
func (f *Facts) late(e *corev1.Event) bool {
	kind := e.InvolvedObject.Kind
	return (kind == KindMachine || kind == KindMCMMachine) && f.Now.Sub(eventTime(e)) <= loadPeriod
}

// setOf reports whether a machine is named after a set of the pool.
func (f *Facts) setOf(o *Object, machine corev1.ObjectReference) bool {
	sets := append(f.children(o), o)
	return slices.ContainsFunc(sets, func(set *Object) bool {
		if set.Kind != KindSet || !strings.HasPrefix(machine.APIVersion, groupOf(set)) && machine.Kind == KindMachine {
			return false
		}
		rest, ours := strings.CutPrefix(machine.Name, set.Name+"-")
		return ours && !strings.Contains(rest, "-")
	})
}

// groupOf is the API group of an object, with its slash.
func groupOf(o *Object) string {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return group + "/"
}
