package main

import (
	"fmt"
	"strings"
	"time"
)

// violation is something that must never happen.
type violation struct {
	invariant, what string
	at              time.Time
}

// invariant looks for what must never happen.
type invariant struct {
	name  string
	check func(*history) []violation
}

// invariants are those that a ledger and an audit log can show.
var invariants = [...]invariant{
	{"one VM per Machine", oneVMPerMachine},
	{"no VM without owner", noVMWithoutOwner},
	{"never too many Machines", neverTooManyMachines},
	{"healthy Machines stay", healthyMachinesStay},
	{"nothing lost is removed", nothingLostIsRemoved},
	{"no write in steady state", noWriteInSteadyState},
	{"everything settles", everythingSettles},
	{"no panic", noPanic},
}

// judge returns all violations of a run.
func judge(h *history) []violation {
	var found []violation
	for _, i := range invariants {
		for _, v := range i.check(h) {
			v.invariant = i.name
			found = append(found, v)
		}
	}
	return found
}

// oneVMPerMachine: no Machine gets a VM while it has another one whose end has
// not been asked for.
func oneVMPerMachine(h *history) []violation {
	var found []violation
	for i, a := range h.vms {
		for _, b := range h.vms[:i] {
			first, second := b, a
			if second.made.Before(first.made) {
				first, second = second, first
			}
			left := first.leaves()
			if a.owner == "" || a.owner != b.owner || !left.IsZero() && !left.After(second.made) {
				continue
			}
			found = append(found, violation{at: second.made, what: fmt.Sprintf(
				"Machine %s (owner id %s) gets VM %s while it has VM %s", second.name, second.owner, second.id, first.id)})
		}
	}
	return found
}

// noVMWithoutOwner: at the end no VM is older than the orphan bound, and without
// an owner for that long.
func noVMWithoutOwner(h *history) []violation {
	var found []violation
	for _, v := range h.vms {
		if !v.leaves().IsZero() || h.owned(v) || h.end.Sub(v.made) <= h.orphanBound {
			continue
		}
		found = append(found, violation{at: v.made, what: fmt.Sprintf(
			"VM %s (%s, owner id %q) is still there and belongs to no Machine", v.id, v.name, v.owner)})
	}
	return found
}

// owned reports whether a VM has an owner, or had one within the orphan bound.
func (h *history) owned(v vm) bool {
	for _, l := range h.lives {
		if l.owner != "" && l.owner == v.owner && (!l.gone || h.end.Sub(l.ended) <= h.orphanBound) {
			return true
		}
	}
	return false
}

// neverTooManyMachines: no manager makes a Machine while its pool has as many as
// replicas and surge, not counting those that are on their way out.
func neverTooManyMachines(h *history) []violation {
	var found []violation
	for i, l := range h.lives {
		most := 0
		for _, w := range h.wished(l.pool, h.view(l.asked), l.made) {
			most = max(most, w.replicas+w.surge)
		}
		if count := h.others(l.pool, i, l.made); count >= most {
			found = append(found, violation{at: l.asked, what: fmt.Sprintf(
				"Machine %s is made by %s while pool %s has %d, and at most %d may be", l.name, l.maker, l.pool, count, most)})
		}
	}
	return found
}

// healthyMachinesStay: a Machine with a node that is well is deleted only by a
// user, by a rollout to another class, or because there are more than replicas.
func healthyMachinesStay(h *history) []violation {
	var found []violation
	for i, l := range h.lives {
		if l.ended.IsZero() || l.ready.IsZero() || l.ready.After(l.ended) || isUser(l.ender) || h.excused(i) {
			continue
		}
		found = append(found, violation{at: l.ended, what: fmt.Sprintf(
			"Machine %s of class %s is deleted by %s; its VM and its node were well, nobody had asked for another class, and "+
				"pool %s had no more than its replicas",
			l.name, l.class, l.ender, l.pool)})
	}
	return found
}

// excused reports whether a Machine was deleted for a reason that can be seen.
func (h *history) excused(i int) bool {
	l := h.lives[i]
	since := h.view(l.ended)
	for _, t := range h.troubles {
		if t.about == l.name && t.overlaps(since, l.ended) {
			return true
		}
	}
	count := h.others(l.pool, i, l.ended) + 1
	for _, w := range h.wished(l.pool, since, l.ended) {
		if w.class != l.class || count > w.replicas {
			return true
		}
	}
	return false
}

// isUser reports whether a user of the API server is none of the machinery.
func isUser(name string) bool {
	return name != managerUser && !strings.HasPrefix(name, "system:kube-controller-manager") &&
		!strings.HasPrefix(name, "system:serviceaccount:kube-system:")
}

// noWriteInSteadyState: once everything has settled nothing is written, but for
// the leases that the managers hold.
func noWriteInSteadyState(h *history) []violation {
	var found []violation
	for _, w := range h.quiet {
		if strings.HasPrefix(w.target, "leases.") {
			continue
		}
		found = append(found, violation{at: w.at, what: fmt.Sprintf("%s of %s %s although nothing changes (%s)", w.verb,
			w.target, w.name, w.agent)})
	}
	return found
}

// everythingSettles: once faults stop, every pool gets what was asked for.
func everythingSettles(h *history) []violation {
	var found []violation
	for _, text := range h.restless {
		found = append(found, violation{at: h.end, what: text})
	}
	return found
}

// noPanic: no manager panics, whatever happens around it.
func noPanic(h *history) []violation {
	var found []violation
	for _, log := range h.panics {
		found = append(found, violation{at: h.end, what: "a manager has panicked, see " + log})
	}
	return found
}
