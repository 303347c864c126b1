package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Tree is what belongs to pools, from the pool down to the Nodes.
type Tree struct {
	metav1.TypeMeta `json:",inline"`
	Items           []*Branch `json:"items"`
	Unread          []string  `json:"unread,omitempty"`
}

// Branch is an object with what is below it, or several healthy machines that look alike.
type Branch struct {
	Object     Ref          `json:"object"`
	API        API          `json:"api"`
	Status     string       `json:"status,omitempty"`
	Desired    *int32       `json:"desired,omitempty"`
	Ready      *int32       `json:"ready,omitempty"`
	Created    *metav1.Time `json:"created,omitempty"`
	Class      string       `json:"class,omitempty"`
	ProviderID string       `json:"providerID,omitempty"`
	// Missing is the first thing that the object lacks; nil if nothing.
	Missing *Finding `json:"missing,omitempty"`
	// Healthy is the number of machines that this branch stands for; 0: for its object.
	Healthy  int       `json:"healthy,omitempty"`
	Children []*Branch `json:"children,omitempty"`
}

// TreeOptions choose what a tree shows.
type TreeOptions struct {
	Pools    []string        // names of MachineDeployments, MachineSets, Machines or Clusters; none: all
	Selector labels.Selector // of the objects at the top; nil: all
	All      bool            // shows healthy machines one by one
}

// Tree arranges the objects of both APIs. Names of pools that do not exist are returned.
func (f *Facts) Tree(o TreeOptions) (Tree, []string) {
	out := Tree{TypeMeta: metav1.TypeMeta{APIVersion: Version, Kind: "Tree"}, Items: []*Branch{}, Unread: f.Unread}
	missing := slices.Clone(o.Pools)
	for _, top := range f.tops(o.Pools) {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == top.Name })
		if o.Selector == nil || o.Selector.Matches(labels.Set(top.Labels)) {
			out.Items = append(out.Items, f.branch(top, o.All))
		}
	}
	return out, missing
}

// topKinds are what a tree can begin with, in the order of the tree.
var topKinds = []string{KindCluster, KindDeployment, KindSet, KindMachine}

// tops are the objects that trees begin with: those of these names, or all without an owner here.
func (f *Facts) tops(names []string) []*Object {
	var found []*Object
	for _, o := range f.Objects {
		if !slices.Contains(topKinds, o.Kind) {
			continue
		}
		top := f.owner(o) == nil || !slices.Contains(topKinds, f.owner(o).Kind)
		if len(names) == 0 && top || slices.Contains(names, o.Name) && !f.below(o, names) {
			found = append(found, o)
		}
	}
	return sorted(found)
}

// below reports whether an owner of o is of these names, so that o is shown there.
func (f *Facts) below(o *Object, names []string) bool {
	for owner := f.owner(o); owner != nil; owner = f.owner(owner) {
		if slices.Contains(names, owner.Name) {
			return true
		}
	}
	return false
}

func sorted(all []*Object) []*Object {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.API, b.API),
			cmp.Compare(order(a.Kind), order(b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// order is the place of a kind among the children of one object.
func order(kind string) int {
	kinds := []string{
		KindMCMCluster, KindControlPlane, KindCluster, KindDeployment, KindSet, KindMachine, KindMCMConfig, KindMCMMachine,
	}
	return slices.Index(kinds, kind)
}

// branch is an object with all that is below it.
func (f *Facts) branch(o *Object, all bool) *Branch {
	b := &Branch{
		Object: o.Ref, API: o.API, Status: f.status(o), Created: at(o.Created), Class: o.Class, ProviderID: o.ProviderID,
		Missing: f.Why(o).Missing,
	}
	if o.Kind == KindSet || o.Kind == KindDeployment {
		b.Desired, b.Ready = &o.Desired, &o.Ready
	}
	b.Status = cmp.Or(b.Status, poolStatus(b.Missing))
	b.Children = f.branches(o, all)
	if o.Kind == KindMachine {
		b.Children = append(b.Children, f.nodeBranch(o)...)
	}
	return b
}

// branches are the objects below o. Unless all are asked for, healthy machines are one branch,
// and MachineSets that are only the history of rollouts none.
func (f *Facts) branches(o *Object, all bool) []*Branch {
	var found []*Branch
	var healthy []*Object
	for _, child := range sorted(f.directlyBelow(o)) {
		switch {
		case !all && f.history(child):
		case !all && child.Kind == KindMachine && f.Why(child).Missing == nil:
			healthy = append(healthy, child)
		default:
			found = append(found, f.branch(child, all))
		}
	}
	if len(healthy) > 0 {
		found = append([]*Branch{collapsed(healthy)}, found...)
	}
	return found
}

// history reports whether o is a MachineSet that only keeps an earlier template.
func (f *Facts) history(o *Object) bool {
	return o.Kind == KindSet && o.Desired == 0 && len(f.children(o)) == 0
}

// directlyBelow are the objects that o controls. Boot data and infrastructure are below their
// Machine, and not below a Cluster.
func (f *Facts) directlyBelow(o *Object) []*Object {
	return slices.DeleteFunc(slices.Clone(f.children(o)), func(child *Object) bool {
		return o.Kind == KindCluster && (child.Kind == KindMCMConfig || child.Kind == KindMCMMachine)
	})
}

func poolStatus(missing *Finding) string {
	if missing == nil || missing.beside {
		return "Ready"
	}
	return "Waiting"
}

// collapsed is one branch for healthy machines.
func collapsed(healthy []*Object) *Branch {
	first := healthy[0]
	oldest := first.Created
	for _, o := range healthy {
		if o.Created.Before(oldest) {
			oldest = o.Created
		}
	}
	n := int32(min(len(healthy), 1<<30))
	return &Branch{
		Object: Ref{
			APIVersion: first.APIVersion, Kind: KindMachine, Namespace: first.Namespace, Name: fmt.Sprintf("%d healthy", n),
		},
		API: first.API, Status: "Running", Created: at(oldest), Healthy: len(healthy), Desired: &n, Ready: &n,
	}
}

// nodeBranch is the Node of a machine, if it can be read or is recorded.
func (f *Facts) nodeBranch(o *Object) []*Branch {
	if n := f.node(o); n != nil {
		return []*Branch{{
			Object: Ref{APIVersion: "v1", Kind: KindNode, Name: n.Name}, API: o.API, Status: nodeStatus(n),
			Created: at(n.CreationTimestamp.Time), ProviderID: n.Spec.ProviderID,
		}}
	}
	if o.API == ClusterAPI && o.Joined {
		return []*Branch{{Object: Ref{APIVersion: "v1", Kind: KindNode, Name: o.Node}, API: o.API, Status: "NotRead"}}
	}
	return nil
}

// nodeStatus is what kubectl get nodes shows.
func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = map[corev1.ConditionStatus]string{
				corev1.ConditionTrue: "Ready", corev1.ConditionFalse: "NotReady", corev1.ConditionUnknown: "NotReady",
			}[c.Status]
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

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
