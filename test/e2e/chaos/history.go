package main

import (
	"time"
)

// history is what happened in a run, as far as the invariants ask.
type history struct {
	lives    []life   // every Machine, in the order of their creation
	vms      []vm     // every VM that the cloud ever made
	wishes   []wish   // what was asked of the pools, in order
	darkness []span   // times in which a manager may have seen nothing new
	troubles []span   // times in which the VM or the node of a Machine was not well
	losses   []loss   // what restores did not know
	quiet    []write  // what managers wrote after everything had settled
	restless []string // what has not settled
	panics   []string // logs of managers that panicked

	lag         time.Duration // within which a manager knows what is so
	orphanBound time.Duration // within which a VM without owner is removed
	end         time.Time
}

// life is one Machine, from the request that made it to the one that ended it.
type life struct {
	name, pool, class string
	owner             string // id that its VM is tagged with
	maker, ender      string // users of the API server
	asked, made       time.Time
	ended             time.Time // zero before its deletion
	ready             time.Time // when its node was first seen ready; zero if never
	gone              bool      // it does not exist any more
}

// vm is one VM in the cloud's ledger.
type vm struct {
	id, owner, name      string
	made, deleting, gone time.Time
	goneBy               string
}

// wish is what a user asks of a pool from a moment between begun and done on.
type wish struct {
	pool, class     string
	replicas, surge int
	begun, done     time.Time
}

// span is a time in which something was so; until is zero if it has not ended.
type span struct {
	about, what string
	from, until time.Time
}

// write is a request that changes something.
type write struct {
	at           time.Time
	verb, target string
	name, agent  string
}

// overlaps reports whether some of the span is between two times.
func (s span) overlaps(from, to time.Time) bool {
	return !s.from.After(to) && (s.until.IsZero() || !s.until.Before(from))
}

// aliveAt reports whether a Machine exists, and is not being deleted, at a time.
func (l life) aliveAt(t time.Time) bool {
	return l.made.Before(t) && (l.ended.IsZero() || l.ended.After(t))
}

// leaves is when a VM's end was asked for, or when it was gone without; zero if
// it stays.
func (v vm) leaves() time.Time {
	if !v.deleting.IsZero() {
		return v.deleting
	}
	return v.gone
}

// view returns the earliest time whose state a manager that acts at t may know
// as the latest one.
func (h *history) view(t time.Time) time.Time {
	from := t.Add(-h.lag)
	earliest := from
	for _, d := range h.darkness {
		if begin := d.from.Add(-h.lag); d.overlaps(from, t) && begin.Before(earliest) {
			earliest = begin
		}
	}
	return earliest
}

// wished returns what may have been in force for a pool some time between two
// times.
func (h *history) wished(pool string, from, to time.Time) []wish {
	var found []wish
	for i, w := range h.wishes {
		if w.pool != pool {
			continue
		}
		force := span{from: w.begun}
		for _, next := range h.wishes[i+1:] {
			if next.pool == pool {
				force.until = next.done
				break
			}
		}
		if force.overlaps(from, to) {
			found = append(found, w)
		}
	}
	return found
}

// others counts the Machines of a pool besides one that are not being deleted
// at a time.
func (h *history) others(pool string, but int, t time.Time) int {
	count := 0
	for i, l := range h.lives {
		if i != but && l.pool == pool && l.aliveAt(t) {
			count++
		}
	}
	return count
}
