package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
)

// drain moves the pods off the node. A node that another Machine claims, or
// that belongs to another VM, is left alone.
func (c *Controller) drain(ctx context.Context, p *pass) (bool, error) {
	if p.node == nil || !ownsNode(p) || c.engine.Deleting(machinev1.OwnerID(p.machine)) {
		return true, nil
	}
	started := p.machine.DeletionTimestamp.Time
	late := p.seen.now.Sub(started) > p.seen.settings.drain
	if ready, err := c.cordon(ctx, p, late); err != nil || !ready {
		return false, err
	}
	result, err := c.drainer.Drain(ctx, c.drainRequest(p, started, late || c.forceDrain(p)))
	if err != nil {
		p.did.deletionWaitsFor = &waiting{machinev1.ReasonDraining, fmt.Sprintf("Drain of Node %s failed", p.node.Name)}
		return false, fmt.Errorf("drain Node %s: %w", p.node.Name, err)
	}
	p.did.drained = &drainState{result.Done, result.Reason, result.Message}
	if result.Done {
		return true, nil
	}
	p.did.deletionWaitsFor = &waiting{result.Reason, result.Message}
	requeueAfter(p, result.Wait)
	if !late {
		requeueAfter(p, started.Add(p.seen.settings.drain).Sub(p.seen.now)+time.Second)
	}
	return false, nil
}

// cordon keeps new pods off a node that is to be drained. One that is silent
// together with others is left alone for now.
func (c *Controller) cordon(ctx context.Context, p *pass, late bool) (bool, error) {
	waits, err := c.drainPausedByOutage(ctx, p, late)
	if err != nil {
		return false, err
	}
	if waits {
		p.did.deletionWaitsFor = p.did.waitsFor
		requeueAfter(p, p.machine.DeletionTimestamp.Add(p.seen.settings.drain).Sub(p.seen.now)+time.Second)
		return false, nil
	}
	if err := c.drainer.MarkTerminating(ctx, p.node, c.terminatingReason(p)); err != nil {
		return false, err
	}
	return true, c.drainer.Cordon(ctx, p.node)
}

// terminatingReason is the reason on the node for which its machine is deleted.
func (c *Controller) terminatingReason(p *pass) string {
	if unhealthyReason(p.node.Status.Conditions, p.seen.settings.nodeConditions) != "" {
		return machinev1.ReasonUnhealthy
	}
	return machinev1.ReasonScaleDown
}

// forceDrain reports whether pods are deleted without asking: the user wants it, or
// the kubelet has been silent for so long that it will not confirm an eviction.
func (c *Controller) forceDrain(p *pass) bool {
	return forceDeletion(p.machine) || longUnhealthy(p.node, p.seen.now)
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
