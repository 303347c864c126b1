package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
)

// drain moves the pods off the node. A node that another Machine claims, or
// that belongs to another VM, is left alone. A failed drain does not stop a deletion by
// force: the next step follows (MCM machine_util.go, drainNode).
func (c *Controller) drain(ctx context.Context, p *pass) (bool, error) {
	if p.node == nil || !ownsNode(p) || c.engine.Deleting(machinev1.OwnerID(p.machine)) {
		return true, nil
	}
	late := drainOverdue(p, p.machine.DeletionTimestamp.Time)
	if waits, err := c.waitForOutage(ctx, p, late); err != nil || waits {
		return false, err
	}
	done, err := c.drainNode(ctx, p, late)
	if err == nil || apierrors.IsConflict(err) {
		return done, err
	}
	if why := forcedBy(p); why != "" {
		skipDrain(ctx, p, why, err)
		return true, nil
	}
	p.did.deletionWaitsFor = &waiting{machinev1.ReasonDraining, fmt.Sprintf("Drain of Node %s failed", p.node.Name)}
	return false, fmt.Errorf("drain Node %s: %w", p.node.Name, err)
}

// skipDrain records that the deletion by force continues although the drain failed. The
// first failure is logged and stays the one that is shown, however often the drain is
// tried again: the next one may differ in nothing but a number.
func skipDrain(ctx context.Context, p *pass, why string, failure error) {
	shown := findCondition(p.seen.before.Status.Progress, machinev1.ConditionDrained)
	if shown != nil && shown.Reason == machinev1.ReasonDrainSkipped {
		p.did.drained = &drainState{reason: machinev1.ReasonDrainSkipped, message: shown.Message}
		return
	}
	ctrl.LoggerFrom(ctx).Error(failure, "Drain failed, the deletion is forced and continues", "node", p.node.Name,
		"forcedBy", why)
	text := fmt.Sprintf("Drain of Node %s failed: %v; the deletion is forced (%s) and continues with the VM",
		p.node.Name, failure, why)
	p.did.drained = &drainState{reason: machinev1.ReasonDrainSkipped, message: text}
	p.did.events = append(p.did.events, kubeEvent{
		corev1.EventTypeWarning, eventDrainSkipped, message.Truncate(text, message.Limit),
	})
}

// drainNode marks and cordons the node and takes the next step of its drain. A failed
// mark does not stop a deletion by force.
func (c *Controller) drainNode(ctx context.Context, p *pass, late bool) (bool, error) {
	forced := forcedBy(p) != ""
	marked := c.drainer.MarkTerminating(ctx, p.node, c.terminatingReason(p))
	if marked != nil && !forced {
		return false, marked
	}
	if err := c.drainer.Cordon(ctx, p.node); err != nil {
		return false, errors.Join(marked, err)
	}
	r, err := c.drainer.Drain(ctx, c.drainRequest(p, p.machine.DeletionTimestamp.Time, forced))
	if err := errors.Join(marked, err); err != nil {
		return false, err
	}
	p.did.drained = drainStateOf(r)
	if r.Done {
		return true, nil
	}
	p.did.deletionWaitsFor, p.did.deletionBlocked = &waiting{r.Reason, r.Message}, needsAttention(r.Reason)
	requeueAfter(p, r.Wait)
	if !late {
		requeueAfter(p, untilDrainTimeout(p))
	}
	return false, nil
}

// needsAttention reports whether MCM's drain fails for that reason, and does not only
// wait: somebody has to act, or the drain timeout ends it.
func needsAttention(reason string) bool {
	switch reason {
	case drain.ReasonBudgetMisconfigured, drain.ReasonEvictionFailed, drain.ReasonPodOverdue,
		machinev1.ReasonDrainTimedOut:
		return true
	}
	return false
}

// waitForOutage reports whether the drain has to wait because the node is silent together
// with others.
func (c *Controller) waitForOutage(ctx context.Context, p *pass, late bool) (bool, error) {
	waits, err := c.drainPausedByOutage(ctx, p, late)
	if err != nil || !waits {
		return false, err
	}
	p.did.deletionWaitsFor = p.did.waitsFor
	requeueAfter(p, untilDrainTimeout(p))
	return true, nil
}

// untilDrainTimeout is when a deletion becomes one by force, at the latest.
func untilDrainTimeout(p *pass) time.Duration {
	return p.machine.DeletionTimestamp.Add(p.seen.settings.drain).Sub(p.seen.now) + time.Second
}

// drainOverdue reports whether a drain that began then has taken as long as it may.
func drainOverdue(p *pass, began time.Time) bool {
	return p.seen.settings.drain == 0 || p.seen.now.Sub(began) > p.seen.settings.drain
}

// terminatingReason is the reason on the node for which its machine is deleted.
func (c *Controller) terminatingReason(p *pass) string {
	if unhealthyReason(p.node.Status.Conditions, p.seen.settings.nodeConditions) != "" {
		return machinev1.ReasonUnhealthy
	}
	return machinev1.ReasonScaleDown
}

// forcedBy returns why the deletion is one by force, which no failure of the drain
// prevents; empty if it is none. The user wants it, the drain took too long, or the
// kubelet has been silent for so long that it will not confirm an eviction.
func forcedBy(p *pass) string {
	switch {
	case forceDeletion(p.machine):
		return "label " + machinev1.ForceDeletionLabel
	case drainOverdue(p, p.machine.DeletionTimestamp.Time):
		return fmt.Sprintf("drain timeout of %s", p.seen.settings.drain)
	case longUnhealthy(p.node, p.seen.now):
		return fmt.Sprintf("the node has been unready or read-only for more than %s", unresponsiveLimit)
	}
	return ""
}

// unresponsiveLimit is how long a node may be unready or read-only before its pods are
// not waited for any more.
const unresponsiveLimit = 5 * time.Minute

// longUnhealthy reports whether node has not been Ready, or its file system not
// been writable, for so long that its pods cannot be drained gracefully.
func longUnhealthy(node *corev1.Node, now time.Time) bool {
	for _, n := range node.Status.Conditions {
		bad := (n.Type == corev1.NodeReady && n.Status != corev1.ConditionTrue) ||
			(n.Type == "ReadonlyFilesystem" && n.Status != corev1.ConditionFalse)
		if bad && now.Sub(n.LastTransitionTime.Time) > unresponsiveLimit {
			return true
		}
	}
	return false
}

// drainRequest is how the node is drained.
func (c *Controller) drainRequest(p *pass, started time.Time, force bool) drain.Request {
	r := drain.Request{
		Node: p.node, Started: started, Timeout: p.seen.settings.drain, MaxEvictRetries: p.seen.settings.maxEvictRetries,
		PVDetachTimeout: c.Options.PVDetachTimeout, PVReattachTimeout: c.Options.PVReattachTimeout, Force: force,
	}
	if namer, ok := p.seen.class.Driver.(cloud.VolumeNamer); ok {
		r.VolumeID = func(pv *corev1.PersistentVolumeSpec) (string, bool) { return namer.VolumeID(volumeOf(pv)) }
	}
	return r
}

// volumeOf is the identity of a persistent volume in its cloud.
func volumeOf(pv *corev1.PersistentVolumeSpec) cloud.Volume {
	switch {
	case pv.CSI != nil:
		return cloud.Volume{Driver: pv.CSI.Driver, Handle: pv.CSI.VolumeHandle}
	case pv.AWSElasticBlockStore != nil:
		return cloud.Volume{Driver: "kubernetes.io/aws-ebs", Handle: pv.AWSElasticBlockStore.VolumeID}
	case pv.Cinder != nil:
		return cloud.Volume{Driver: "kubernetes.io/cinder", Handle: pv.Cinder.VolumeID}
	case pv.VsphereVolume != nil:
		return cloud.Volume{Driver: "kubernetes.io/vsphere-volume", Handle: pv.VsphereVolume.VolumePath}
	case pv.GCEPersistentDisk != nil:
		return cloud.Volume{Driver: "kubernetes.io/gce-pd", Handle: pv.GCEPersistentDisk.PDName}
	case pv.AzureDisk != nil:
		return cloud.Volume{Driver: "kubernetes.io/azure-disk", Handle: pv.AzureDisk.DataDiskURI}
	}
	return cloud.Volume{}
}

// detachVolumes removes the volume attachments of a node whose pods were not waited
// for: no other component does while the kubelet does not answer.
func (c *Controller) detachVolumes(ctx context.Context, p *pass) (bool, error) {
	if p.node == nil || !ownsNode(p) {
		return true, nil
	}
	if forcedBy(p) == "" {
		return true, nil
	}
	remaining, err := c.drainer.DeleteAttachments(ctx, p.node)
	if err != nil {
		return false, err
	}
	if len(remaining) == 0 {
		return true, nil
	}
	p.did.deletionWaitsFor = &waiting{
		machinev1.ReasonDetachingVolumes,
		fmt.Sprintf("%d volumes of Node %s are still attached", len(remaining), p.node.Name),
	}
	requeueAfter(p, shortRetry)
	return false, nil
}
