package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	restorer = "somebody who restores"

	// So many orphans are removed without asking, or one of so many VMs: docs/operations.md.
	fewOrphans   = 3
	orphansShare = 10
)

// loss is what a restore did not know.
type loss struct {
	at       time.Time
	limit    int                  // of orphans that are removed without asking
	vms      map[string]bool      // that had lost their Machines, by id
	approved map[string]time.Time // of these, by a person
}

// planRestores has etcd backed up and restored later, several times.
func (c *chaos) planRestores() {
	length := time.Duration(c.options.minutes * float64(time.Minute))
	part := length / time.Duration(max(c.options.restores, 1))
	for i := range c.options.restores {
		folder := filepath.Join(c.options.dir, fmt.Sprintf("backup-%d", i))
		begin := time.Duration(i) * part
		c.after(begin+c.between(part/8, part/4), func(context.Context) error {
			c.say("etcd is backed up")
			return c.Cluster.Backup(folder)
		})
		c.after(begin+c.between(part/2, part*3/4), func(ctx context.Context) error { return c.restore(ctx, folder) })
	}
}

// restore restores etcd from a backup, and starts everything again that has a cache. The
// VMs and their kubelets go on.
func (c *chaos) restore(ctx context.Context, folder string) error {
	began := time.Now()
	c.say("etcd is restored")
	for i := range c.seats {
		s := &c.seats[i]
		if s.manager != nil {
			if err := s.manager.Kill(); err != nil {
				return err
			}
		}
		s.manager, s.stopped, s.due = nil, false, began.Add(time.Second)
	}
	c.faults++
	if err := c.Cluster.Restore(ctx, folder); err != nil {
		return err
	}
	c.apiDown = false
	c.dark("etcd was restored", began, time.Now().Add(takeover))
	for i, d := range c.darkness { // what was to bring the API server back finds it there
		if d.until.IsZero() && d.what == apiServerAway {
			c.darkness[i].until = time.Now().Add(takeover)
		}
	}
	lost, err := c.loss(ctx, began)
	if err != nil {
		return err
	}
	c.losses = append(c.losses, lost)
	c.say("etcd is back, and does not know the Machines of %d VMs", len(lost.vms))
	for _, pool := range c.pools {
		if err := c.ask(ctx, pool, func(d *machinev1.MachineDeployment) { d.Spec.Paused = false }); err != nil {
			return err
		}
	}
	return nil
}

// loss returns the VMs of the cloud that no Machine owns.
func (c *chaos) loss(ctx context.Context, at time.Time) (loss, error) {
	lost := loss{at: at, vms: map[string]bool{}, approved: map[string]time.Time{}}
	machines, err := c.Machines(ctx, "")
	if err != nil {
		return lost, err
	}
	owners := map[string]bool{}
	for i := range machines {
		owners[machinev1.OwnerID(&machines[i])] = true
	}
	live, err := c.Cloud.Live(ctx, sim.KindVM)
	lost.limit = max(fewOrphans, len(live)/orphansShare)
	for _, r := range live {
		if owner := r.Tags[machinev1.OwnerIDAnnotation]; owner != "" && !owners[owner] && r.Deleting.IsZero() {
			lost.vms[r.ID] = true
		}
	}
	return lost, err
}

// decide has a person approve the orphans that are held, if there are any.
func (c *chaos) decide(ctx context.Context) error {
	for _, name := range classes {
		class := &machinev1.MachineClass{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: name}, class); err != nil {
			return err
		}
		var held machinev1.HeldOrphans
		if json.Unmarshal([]byte(class.Annotations[machinev1.HeldOrphansAnnotation]), &held) != nil {
			continue
		}
		ids := machinev1.OrphanIDs(class.Annotations[machinev1.ApprovedOrphansAnnotation])
		known := len(ids)
		for _, o := range held.Orphans {
			if !strings.Contains(class.Annotations[machinev1.ApprovedOrphansAnnotation], o.ID) {
				ids = append(ids, o.ID)
				c.approve(o.ID)
			}
		}
		if len(ids) == known {
			continue
		}
		c.say("a person approves that %d orphans go, of which %d were held", len(ids), held.Count)
		err := c.Edit(ctx, class, func() {
			machinev1.SetAnnotation(class, machinev1.ApprovedOrphansAnnotation, strings.Join(ids, ","))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// approve notes that a person approves a VM's removal from now on.
func (c *chaos) approve(id string) {
	for _, l := range c.losses {
		if l.approved[id].IsZero() {
			l.approved[id] = time.Now()
		}
	}
}

// forgotten ends the lives of Machines that a restore did not know any more.
func forgotten(lives []life, losses []loss) []life {
	for i := range lives {
		l := &lives[i]
		for _, r := range losses {
			if l.gone && l.ended.IsZero() && r.at.After(l.made) {
				l.ended, l.ender = r.at, restorer
			}
		}
	}
	return lives
}

// nothingLostIsRemoved: VMs whose Machines a restore does not know stay where they are more
// than can be expected of orphans, until a person approves that they go.
func nothingLostIsRemoved(h *history) []violation {
	var found []violation
	for _, r := range h.losses {
		var removed []vm
		lost := 0
		for _, v := range h.vms {
			if !r.vms[v.id] || h.returned(v, r.at) {
				continue
			}
			lost++
			approved := r.approved[v.id]
			if !v.deleting.IsZero() && v.goneBy == stack.AccountID && (approved.IsZero() || approved.After(v.deleting)) {
				removed = append(removed, v)
			}
		}
		if lost <= r.limit {
			continue
		}
		for _, v := range removed {
			found = append(found, violation{at: v.deleting, what: fmt.Sprintf(
				"VM %s (%s) is removed, one of %d whose Machines a restore did not know, and no person has approved that", v.id,
				v.name, lost)})
		}
	}
	return found
}

// returned reports whether a VM got a Machine again after a restore: its set has created the
// same one, with the same owner id.
func (h *history) returned(v vm, restored time.Time) bool {
	for _, l := range h.lives {
		if l.owner == v.owner && l.made.After(restored) {
			return true
		}
	}
	return false
}
