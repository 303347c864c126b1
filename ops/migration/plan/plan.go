// Package plan says what a move would do to a pool, and what is in its way.
package plan

import (
	"cmp"
	"slices"
	"strings"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

// Plan is what a move would do to one pool.
type Plan struct {
	Pool    migration.Pool `json:"pool"`
	From    migration.API  `json:"from"`
	To      migration.API  `json:"to"`
	Cluster string         `json:"cluster"`
	// Phase is how far a move is that has begun; empty: none has.
	Phase    migration.Phase     `json:"phase,omitempty"`
	Replicas int32               `json:"replicas"`
	Machines []MachinePlan       `json:"machines"`
	Findings []migration.Finding `json:"findings"`
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
	// that of the Node, and "mcm" if the native API turns it into its own form.
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

// Blocked returns the findings that keep the pool from being moved: what has to be
// done first, and losses that the user has not accepted.
func (p Plan) Blocked() []migration.Finding {
	var out []migration.Finding
	for _, f := range p.Findings {
		if f.Level == migration.Blocked || f.Level == migration.Lost && !slices.Contains(p.Accepted, f.Field) {
			out = append(out, f)
		}
	}
	return out
}

// All are the plans of all pools, in their order.
func All(f *migration.Fleet, o migration.Options) []Plan {
	plans := make([]Plan, 0, len(f.Pools))
	for _, s := range f.Pools {
		plans = append(plans, Of(s, o))
	}
	return plans
}

// Of returns what a move to the API that o names would do. It reads nothing and
// changes nothing. A pool whose move has begun is planned like any other, except
// that objects that this move has created do not block it.
func Of(s *migration.PoolState, o migration.Options) Plan {
	o.Cluster = cmp.Or(o.Cluster, s.Cluster.Name)
	p := &planner{PoolState: s, options: o, Plan: Plan{
		Pool: s.Pool, From: o.To.Other(), To: o.To, Cluster: o.Cluster, Accepted: slices.Sorted(slices.Values(o.Accept)),
		Machines: []MachinePlan{}, Findings: []migration.Finding{}, Creates: []Objects{}, Finalizers: []Finalizer{},
	}}
	if s.Record != nil && s.Record.Phase != migration.PhaseFinished {
		p.Phase = s.Record.Phase
	}
	p.surroundings()
	if o.To == migration.ClusterAPI {
		p.toClusterAPI()
	} else {
		p.toNative()
	}
	p.machineFindings()
	p.sort()
	return p.Plan
}

// planner makes one plan.
type planner struct {
	*migration.PoolState
	options migration.Options
	Plan
}

func (p *planner) find(f migration.Finding) { p.Findings = append(p.Findings, f) }

func (p *planner) block(object, field, text, remedy string) {
	p.find(migration.Blocked.Finding(object, field, text, remedy))
}

// machineFindings says of each blocked machine that it blocks the pool.
func (p *planner) machineFindings() {
	for i := range p.Machines {
		if m := &p.Machines[i]; m.Verdict == VerdictBlocked {
			p.block(machinev1.MachineKind+" "+p.Plan.Pool.Namespace+"/"+m.Name, "", m.Reason, m.Remedy)
		}
	}
}

// block records that m blocks the move. The first reason is kept: it is the one to
// be dealt with first.
func (m *MachinePlan) block(reason, remedy string) {
	if m.Verdict != VerdictBlocked {
		m.Verdict, m.Reason, m.Remedy = VerdictBlocked, reason, remedy
	}
}

// levels are the worst first.
var levels = []migration.Level{migration.Blocked, migration.Lost, migration.Replaced, migration.Kept}

func (p *planner) sort() {
	slices.SortStableFunc(p.Findings, func(a, b migration.Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level)),
			cmp.Compare(strings.Count(a.Object, " "), strings.Count(b.Object, " ")),
		)
	})
	slices.SortFunc(p.Machines, func(a, b MachinePlan) int { return cmp.Compare(a.Name, b.Name) })
}
