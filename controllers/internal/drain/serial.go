package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// A departure is a pod with volumes on its way out. As long as one is not over,
// no other pod with volumes is evicted: clouds attach volumes one by one, and
// pods that wait for theirs in a crowd come up late.
type departure struct {
	uid        types.UID // of the pod; "" if only its volumes are left
	pod        string    // for a person
	volumes    []volume
	detachBy   time.Time
	detached   bool
	reattachBy time.Time // once detached
	over       bool
}

// releaseSerially evicts the pods with claims one after the other, the most
// important first. A pod that a disruption budget keeps lets the next one pass.
func (p *pass) releaseSerially(ctx context.Context, bound []*corev1.Pod) error {
	if err := p.meet(ctx, bound); err != nil {
		return err
	}
	busy, err := p.follow(ctx, bound)
	if err != nil || busy {
		return err
	}
	slices.SortFunc(bound, byPriority)
	for _, pod := range bound {
		if pod.DeletionTimestamp != nil || p.now.Before(p.memory.attempt(pod).next) {
			continue
		}
		// Read before the pod goes: its claims may go with it.
		volumes, err := p.volumesOf(ctx, pod)
		if err != nil {
			return err
		}
		released, err := p.release(ctx, pod)
		if err != nil {
			return err
		}
		if released {
			p.depart(pod, volumes, p.now.Add(grace(pod)))
			return nil
		}
	}
	return nil
}

// depart begins to wait for a pod that ends at the given time at the latest.
func (p *pass) depart(pod *corev1.Pod, volumes []volume, ends time.Time) {
	p.memory.departures = slices.DeleteFunc(p.memory.departures, func(d *departure) bool { return d.uid == pod.UID })
	p.memory.departures = append(p.memory.departures, &departure{
		uid: pod.UID, pod: "pod " + name(pod), volumes: volumes, detachBy: ends.Add(max(p.request.PVDetachTimeout, 0)),
	})
}

// meet makes departures of the pods that something else is deleting.
func (p *pass) meet(ctx context.Context, bound []*corev1.Pod) error {
	known := map[types.UID]bool{}
	for _, d := range p.memory.departures {
		known[d.uid] = true
	}
	for _, pod := range bound {
		if pod.DeletionTimestamp == nil || known[pod.UID] {
			continue
		}
		volumes, err := p.volumesOf(ctx, pod)
		if err != nil {
			return err
		}
		p.depart(pod, volumes, pod.DeletionTimestamp.Time)
	}
	return nil
}

// follow looks after the departures, and reports whether one is not over.
func (p *pass) follow(ctx context.Context, bound []*corev1.Pod) (busy bool, err error) {
	present := map[types.UID]bool{}
	for _, pod := range bound {
		present[pod.UID] = true
	}
	for _, d := range p.memory.departures {
		if d.over {
			continue
		}
		if d.over, err = p.isOver(ctx, d, present[d.uid]); err != nil {
			return true, err
		}
		busy = busy || !d.over
	}
	return busy, nil
}

// isOver reports whether a departure needs no more waiting for: its volumes have
// arrived elsewhere, or its time is up, which is noted.
func (p *pass) isOver(ctx context.Context, d *departure, present bool) (bool, error) {
	if !d.detached {
		if over := p.isLeft(d, present); !d.detached {
			return over, nil
		}
	}
	if len(d.volumes) == 0 || d.uid == "" {
		return true, nil
	}
	arrived, err := p.elsewhere(ctx, d.volumes)
	if err != nil || arrived {
		return arrived, err
	}
	if p.now.Before(d.reattachBy) {
		return false, nil
	}
	if p.request.PVReattachTimeout > 0 {
		p.note("%s: %s has not been attached to another node in time", d.pod, list(d.volumes))
	}
	return true, nil
}

// isLeft reports whether a departure whose volumes are on the node need not be
// waited for any longer, which is noted. Where pod and volumes have left, it
// notes that they are detached, and the time for them to arrive begins.
func (p *pass) isLeft(d *departure, present bool) bool {
	still := attached(p.request.Node, d.volumes)
	switch {
	case !present && len(still) == 0:
		d.detached, d.reattachBy = true, p.now.Add(p.request.PVReattachTimeout)
		return false
	case p.now.Before(d.detachBy):
		return false
	case present:
		p.note("%s has not ended in time, the next one goes", d.pod)
	default:
		p.note("%s: %s has not been detached in time, the next one goes", d.pod, list(still))
	}
	return true
}

// lookBack finds, in the first pass, volumes whose pods have gone but which have
// not left the node: the drain may have been begun by another process. They
// hold up the drain like those of a pod that it has evicted itself.
func (p *pass) lookBack(ctx context.Context) error {
	if p.memory.looked || p.request.Force || len(p.request.Node.Status.VolumesAttached) == 0 {
		p.memory.looked = true
		return nil
	}
	left, err := p.unclaimed(ctx)
	if err != nil {
		return err
	}
	if len(attached(p.request.Node, left)) > 0 {
		p.memory.departures = append(p.memory.departures, &departure{
			pod: "a pod that is gone", volumes: left, detachBy: p.now.Add(max(p.request.PVDetachTimeout, 0)),
		})
	}
	p.memory.looked = true
	return nil
}

// unclaimed returns the volumes attached to the node that no pod there has
// claimed.
func (p *pass) unclaimed(ctx context.Context) ([]volume, error) {
	var all storagev1.VolumeAttachmentList
	err := p.drainer.target.Client.List(ctx, &all, client.MatchingFields{index.AttachmentByNode: p.request.Node.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the attachments of node %s: %w", p.request.Node.Name, err)
	}
	slices.SortFunc(all.Items, func(a, b storagev1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	var left []volume
	for i := range all.Items {
		key := volumeOf(&all.Items[i])
		if key == "" {
			continue
		}
		v, claim, err := p.volume(ctx, key)
		if err != nil {
			return nil, err
		}
		if v.id != "" && p.claims[claim] == 0 {
			left = append(left, v)
		}
	}
	return left, nil
}

// note keeps what the drain no longer waits for, to be said until its end.
func (p *pass) note(format string, args ...any) {
	p.memory.notes = append(p.memory.notes, fmt.Sprintf(format, args...))
}

// list of volumes, for a person.
func list(volumes []volume) string {
	var names []string
	for _, v := range volumes {
		names = append(names, v.name)
	}
	return "PersistentVolume " + strings.Join(names, ", ")
}
