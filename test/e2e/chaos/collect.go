package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// collect puts the history together: the cloud's ledger, the audit log, what was
// seen, and what was done.
func (c *chaos) collect(ctx context.Context) (*history, error) {
	ledger, err := c.Cloud.Ledger(ctx, sim.KindVM)
	if err != nil {
		return nil, err
	}
	entries, err := c.Cluster.Audit().Since(0, audit.Verb("create", "delete"), audit.Resource("machines", "nodes"))
	if err != nil {
		return nil, err
	}
	h := &history{
		wishes: c.wishes, darkness: c.darkness, quiet: c.quiet, restless: c.restless,
		lag: lag, orphanBound: orphanBound, end: time.Now(),
		lives: forgotten(livesOf(entries, c.observer.seen()), c.losses), losses: c.losses,
	}
	if h.panics, err = c.panics(); err != nil {
		return nil, err
	}
	h.vms = vmsOf(ledger)
	h.troubles = slices.Concat(c.troubles, c.observer.unwell(), lostVMs(h.vms), deletedNodes(entries))
	return h, nil
}

func vmsOf(ledger []sim.Resource) []vm {
	all := make([]vm, 0, len(ledger))
	for _, r := range ledger {
		all = append(all, vm{
			id: r.ID, name: r.Tags[sim.NameTag], owner: r.Tags[machinev1.OwnerIDAnnotation],
			made: r.Made, deleting: r.Deleting, gone: r.Gone, goneBy: r.GoneBy,
		})
	}
	return all
}

// lostVMs are the VMs whose end no manager asked for.
func lostVMs(all []vm) []span {
	var lost []span
	for _, v := range all {
		if !v.leaves().IsZero() && v.goneBy != stack.AccountID {
			lost = append(lost, span{about: v.name, what: "VM " + v.id + " was taken away by " + v.goneBy, from: v.leaves()})
		}
	}
	return lost
}

// deletedNodes are the nodes that somebody else than a manager deleted.
func deletedNodes(entries []audit.Entry) []span {
	var lost []span
	for _, e := range entries {
		if e.Resource == "nodes" && e.Verb == "delete" && e.Code < http.StatusMultipleChoices && e.User != managerUser {
			lost = append(lost, span{about: e.Name, what: "its node was deleted by " + e.User, from: e.Received})
		}
	}
	return lost
}

// livesOf follows the Machines through the audit log. The log of an API server
// that was killed may lack its last answers: what it lacks is taken from what
// was seen.
func livesOf(entries []audit.Entry, seen []sight) []life {
	lives := audited(entries)
	for _, s := range seen {
		lives = join(lives, s)
	}
	for i := range lives {
		if lives[i].pool == "" { // came and went unseen
			lives[i].pool, lives[i].gone = poolOf(lives[i].name), true
		}
	}
	slices.SortStableFunc(lives, func(a, b life) int { return a.asked.Compare(b.asked) })
	return lives
}

// audited returns what the audit log alone knows of Machines.
func audited(entries []audit.Entry) []life {
	sorted := slices.DeleteFunc(slices.Clone(entries), func(e audit.Entry) bool {
		return e.Resource != "machines" || e.Subresource != "" || e.Code >= http.StatusMultipleChoices
	})
	slices.SortStableFunc(sorted, func(a, b audit.Entry) int { return a.Received.Compare(b.Received) })
	var lives []life
	latest := map[string]int{}
	for _, e := range sorted {
		i, known := latest[e.Name]
		switch {
		case e.Verb == "create":
			latest[e.Name] = len(lives)
			lives = append(lives, life{name: e.Name, maker: e.User, asked: e.Received, made: e.Completed})
		case known && lives[i].ended.IsZero():
			lives[i].ended, lives[i].ender = e.Received, e.User
		}
	}
	return lives
}

// join adds what was seen of a Machine to its life.
func join(lives []life, s sight) []life {
	at := slices.IndexFunc(lives, func(l life) bool {
		// A creation timestamp has no fractions of a second.
		off := l.made.Sub(s.created)
		return l.name == s.name && l.owner == "" && off > -2*time.Second && off < 10*time.Second
	})
	if at < 0 {
		lives = append(lives, life{name: s.name, maker: managerUser, asked: s.created, made: s.created})
		at = len(lives) - 1
	}
	l := &lives[at]
	l.pool, l.class, l.owner, l.ready, l.gone = s.pool, s.class, s.owner, s.ready, s.gone
	if l.ended.IsZero() && !s.deleted.IsZero() {
		l.ended, l.ender = s.deleted, managerUser
	}
	return lives
}

// poolOf is the pool that a Machine of this name belongs to: <pool>-<hash>-<suffix>.
func poolOf(name string) string {
	pool, _, _ := strings.Cut(name, "-")
	return pool
}
