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

// A departure is the eviction of a pod with volumes, until the volumes are attached to
// another node. Only one is under way at a time: clouds attach volumes one by one, so
// that many pods that wait for volumes at once all start late.
type departure struct {
	uid        types.UID // of the pod; empty if only its volumes are left
	pod        string    // for people
	volumes    []volume
	detachBy   time.Time
	detached   bool
	reattachBy time.Time // once detached
	complete   bool
}

// evictSerially evicts the pods with claims one by one, by priority. If a disruption
// budget refuses one, it tries the next.
func (p *pass) evictSerially(ctx context.Context, bound []*corev1.Pod) error {
	if err := p.trackDeletedPods(ctx, bound); err != nil {
		return err
	}
	busy, err := p.advanceDepartures(ctx, bound)
	if err != nil || busy {
		return err
	}
	slices.SortFunc(bound, byPriority)
	for _, pod := range bound {
		if pod.DeletionTimestamp != nil || p.now.Before(p.state.attempt(pod).next) {
			continue
		}
		// Read before the eviction: the claims may be deleted with the pod.
		volumes, err := p.volumesOf(ctx, pod)
		if err != nil {
			return err
		}
		evicted, err := p.evictIfDue(ctx, pod)
		if err != nil {
			return err
		}
		if evicted {
			p.addDeparture(pod, volumes, p.now.Add(grace(pod)))
			return nil
		}
	}
	return nil
}

// addDeparture makes the drain wait for a pod that terminates by the given time.
func (p *pass) addDeparture(pod *corev1.Pod, volumes []volume, ends time.Time) {
	p.state.departures = slices.DeleteFunc(p.state.departures, func(d *departure) bool { return d.uid == pod.UID })
	p.state.departures = append(p.state.departures, &departure{
		uid: pod.UID, pod: "pod " + name(pod), volumes: volumes, detachBy: ends.Add(max(p.request.PVDetachTimeout, 0)),
	})
}

// trackDeletedPods adds departures for the pods that others are deleting.
func (p *pass) trackDeletedPods(ctx context.Context, bound []*corev1.Pod) error {
	known := map[types.UID]bool{}
	for _, d := range p.state.departures {
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
		p.addDeparture(pod, volumes, pod.DeletionTimestamp.Time)
	}
	return nil
}

// advanceDepartures advances each departure, and reports whether one is not complete.
func (p *pass) advanceDepartures(ctx context.Context, bound []*corev1.Pod) (busy bool, err error) {
	present := map[types.UID]bool{}
	for _, pod := range bound {
		present[pod.UID] = true
	}
	for _, d := range p.state.departures {
		if d.complete {
			continue
		}
		if d.complete, err = p.isComplete(ctx, d, present[d.uid]); err != nil {
			return true, err
		}
		busy = busy || !d.complete
	}
	return busy, nil
}

// isComplete reports whether a departure is complete: its volumes are attached to other
// nodes, or its time is up, which it records as a note.
func (p *pass) isComplete(ctx context.Context, d *departure, present bool) (bool, error) {
	if !d.detached {
		if over := p.isDetached(d, present); !d.detached {
			return over, nil
		}
	}
	if len(d.volumes) == 0 || d.uid == "" {
		return true, nil
	}
	arrived, err := p.attachedElsewhere(ctx, d.volumes)
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

// isDetached reports whether the drain has to stop waiting for a pod and its volumes
// to leave the node, because their time is up; it records that as a note. Where they
// have left, it starts the time for the volumes to be attached elsewhere.
func (p *pass) isDetached(d *departure, present bool) bool {
	still := attached(p.request.Node, d.volumes)
	switch {
	case !present && len(still) == 0:
		d.detached, d.reattachBy = true, p.now.Add(p.request.PVReattachTimeout)
		return false
	case p.now.Before(d.detachBy):
		return false
	case present:
		p.note("%s has not terminated in time; the next pod is evicted", d.pod)
	default:
		p.note("%s: %s has not been detached in time; the next pod is evicted", d.pod, list(still))
	}
	return true
}

// recoverVolumes finds, in the first pass, volumes that are still attached although
// their pods are gone: another process may have begun the drain. The drain waits for
// them as for those of a pod that it has evicted itself.
func (p *pass) recoverVolumes(ctx context.Context) error {
	if p.state.recovered || p.request.Force || len(p.request.Node.Status.VolumesAttached) == 0 {
		p.state.recovered = true
		return nil
	}
	left, err := p.leftoverVolumes(ctx)
	if err != nil {
		return err
	}
	if len(attached(p.request.Node, left)) > 0 {
		p.state.departures = append(p.state.departures, &departure{
			pod: "a deleted pod", volumes: left, detachBy: p.now.Add(max(p.request.PVDetachTimeout, 0)),
		})
	}
	p.state.recovered = true
	return nil
}

// leftoverVolumes returns the volumes attached to the node that no pod there claims.
func (p *pass) leftoverVolumes(ctx context.Context) ([]volume, error) {
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

// note records what the drain no longer waits for. Its messages contain it until the
// end.
func (p *pass) note(format string, args ...any) {
	p.state.notes = append(p.state.notes, fmt.Sprintf(format, args...))
}

// list returns the names of volumes, for people.
func list(volumes []volume) string {
	var names []string
	for _, v := range volumes {
		names = append(names, v.name)
	}
	return "PersistentVolume " + strings.Join(names, ", ")
}
