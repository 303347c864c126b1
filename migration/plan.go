package migration

import (
	"cmp"
	"slices"
	"strings"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Plan is what a move would do to one pool.
type Plan struct {
	Pool    Pool   `json:"pool"`
	From    Door   `json:"from"`
	To      Door   `json:"to"`
	Cluster string `json:"cluster"`
	// Phase is how far a move is that has begun; empty: none has.
	Phase    Phase         `json:"phase,omitempty"`
	Replicas int32         `json:"replicas"`
	Machines []MachinePlan `json:"machines"`
	Findings []Finding     `json:"findings"`
	// Creates are the objects that would be made, by kind, each list in the order of names.
	Creates []Objects `json:"creates"`
	// Finalizers are what keeps objects from going, and what the move does about it.
	Finalizers []Finalizer `json:"finalizers"`
	// Accepted are fields whose loss is accepted.
	Accepted []string `json:"accepted,omitempty"`
}

// Verdict is what becomes of a machine.
type Verdict string

// The verdicts.
const (
	VerdictKept    Verdict = "kept"    // as it is: VM, node and name
	VerdictBlocked Verdict = "blocked" // it keeps its pool from being moved
)

// MachinePlan is what becomes of one machine.
type MachinePlan struct {
	Name           string  `json:"name"`
	Set            string  `json:"set,omitempty"`
	Node           string  `json:"node,omitempty"`
	Phase          string  `json:"phase,omitempty"`
	Verdict        Verdict `json:"verdict"`
	Reason         string  `json:"reason,omitempty"` // why it is blocked
	Remedy         string  `json:"remedy,omitempty"` // what to do first
	KubeletVersion string  `json:"kubeletVersion,omitempty"`
	ProviderID     string  `json:"providerID,omitempty"` // as it is to be
	// ProviderIDForm is "same" if the providerID stays as it is, "node" if it becomes
	// that of the Node, and "mcm" if the native door turns it into its own form.
	ProviderIDForm string   `json:"providerIDForm,omitempty"`
	Finalizers     []string `json:"finalizers,omitempty"` // that are on it now
}

// Forms of a providerID in a MachinePlan.
const (
	FormSame = "same"
	FormNode = "node"
	FormMCM  = "mcm"
)

// Objects are objects of one kind.
type Objects struct {
	Kind  string   `json:"kind"`
	Names []string `json:"names"`
}

// Finalizer is one finalizer, on what it is, and what becomes of it.
type Finalizer struct {
	Name string `json:"name"`
	On   string `json:"on"`
	Text string `json:"text"`
}

// Plan says what a move to the door that o names would do. It reads nothing and
// changes nothing. A pool whose move has begun is looked at like any other, except
// that what this move has made is in nobody's way.
func (s *Scene) Plan(o Options) Plan {
	o.Cluster = cmp.Or(o.Cluster, s.Cluster.Name)
	p := &planner{Scene: s, options: o, Plan: Plan{
		Pool: s.Pool, From: o.To.Other(), To: o.To, Cluster: o.Cluster, Accepted: slices.Sorted(slices.Values(o.Accept)),
		Machines: []MachinePlan{}, Findings: []Finding{}, Creates: []Objects{}, Finalizers: []Finalizer{},
	}}
	if s.Record != nil && s.Record.Phase != PhaseFinished {
		p.Phase = s.Record.Phase
	}
	p.surroundings()
	if o.To == DoorClusterAPI {
		p.toClusterAPI()
	} else {
		p.toNative()
	}
	p.machineFindings()
	p.sort()
	return p.Plan
}

// Blocked returns the findings that keep the pool from being moved: what has to be
// done first, and losses that nobody has accepted.
func (p Plan) Blocked() []Finding {
	var out []Finding
	for _, f := range p.Findings {
		if f.Level == Blocked || f.Level == Lost && !slices.Contains(p.Accepted, f.Field) {
			out = append(out, f)
		}
	}
	return out
}

// planner makes one plan.
type planner struct {
	*Scene
	options Options
	Plan
}

func (p *planner) find(f Finding) { p.Findings = append(p.Findings, f) }

// machineFindings says of each blocked machine that it blocks the pool.
func (p *planner) machineFindings() {
	for i := range p.Machines {
		if m := &p.Machines[i]; m.Verdict == VerdictBlocked {
			p.find(Finding{
				Level: Blocked, Object: machinev1.MachineKind + " " + p.Plan.Pool.Namespace + "/" + m.Name, Text: m.Reason,
				Remedy: m.Remedy,
			})
		}
	}
}

// order is the worst first.
var order = []Level{Blocked, Lost, Replaced, Kept}

func (p *planner) sort() {
	slices.SortStableFunc(p.Findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Level), slices.Index(order, b.Level)),
			cmp.Compare(strings.Count(a.Object, " "), strings.Count(b.Object, " ")),
		)
	})
	slices.SortFunc(p.Machines, func(a, b MachinePlan) int { return cmp.Compare(a.Name, b.Name) })
}

// block says that m is in the way. The first reason counts: it is the one to be
// dealt with first.
func (m *MachinePlan) block(reason, remedy string) {
	if m.Verdict != VerdictBlocked {
		m.Verdict, m.Reason, m.Remedy = VerdictBlocked, reason, remedy
	}
}

// creates notes objects that would be made.
func creates[T any, P interface {
	*T
	GetName() string
}](p *planner, kind string, want []T, have map[string]bool) {
	var names []string
	for i := range want {
		if name := P(&want[i]).GetName(); !have[name] {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		p.Creates = append(p.Creates, Objects{Kind: kind, Names: names})
	}
}

// namesOf are the names of objects.
func namesOf[T any, P interface {
	*T
	GetName() string
}](list []T) map[string]bool {
	out := map[string]bool{}
	for i := range list {
		out[P(&list[i]).GetName()] = true
	}
	return out
}
