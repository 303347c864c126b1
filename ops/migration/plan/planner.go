package plan

import (
	"cmp"
	"slices"
	"strings"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

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

// machineFindings says of each blocked machine that it blocks the pool.
func (p *planner) machineFindings() {
	for i := range p.Machines {
		if m := &p.Machines[i]; m.Verdict == VerdictBlocked {
			p.find(migration.Finding{
				Level: migration.Blocked, Object: machinev1.MachineKind + " " + p.Plan.Pool.Namespace + "/" + m.Name,
				Text:   m.Reason,
				Remedy: m.Remedy,
			})
		}
	}
}

// order is the worst first.
var order = []migration.Level{migration.Blocked, migration.Lost, migration.Replaced, migration.Kept}

func (p *planner) sort() {
	slices.SortStableFunc(p.Findings, func(a, b migration.Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Level), slices.Index(order, b.Level)),
			cmp.Compare(strings.Count(a.Object, " "), strings.Count(b.Object, " ")),
		)
	})
	slices.SortFunc(p.Machines, func(a, b MachinePlan) int { return cmp.Compare(a.Name, b.Name) })
}

// block records that m blocks the move. The first reason is kept: it is the one to
// be dealt with first.
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
