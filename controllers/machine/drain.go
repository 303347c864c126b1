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

// confirmNotHeld is the first step of a deletion: it makes sure that the Machine is not
// held. A process that has just become the leader may have a cache from before a
// hold that another one answered.
func (c *Controller) confirmNotHeld(ctx context.Context, f *facts) (bool, error) {
	return true, c.gate.Confirm(ctx, f.machine)
}

// drain moves the pods off the node. A node that another Machine claims, or
// that belongs to another VM, is left alone.
func (c *Controller) drain(ctx context.Context, f *facts) (bool, error) {
	if f.node == nil || !ownsNode(f) || c.engine.Deleting(machinev1.OwnerID(f.machine)) {
		return true, nil
	}
	started := f.machine.DeletionTimestamp.Time
	late := f.now.Sub(started) > f.settings.drain
	if ready, err := c.cordon(ctx, f, late); err != nil || !ready {
		return false, err
	}
	result, err := c.drainer.Drain(ctx, c.drainRequest(ctx, f, started, late || c.forceDrain(f)))
	if err != nil {
		f.deletionWaitsFor = &waiting{machinev1.ReasonDraining, fmt.Sprintf("Drain of Node %s failed", f.node.Name)}
		return false, fmt.Errorf("drain Node %s: %w", f.node.Name, err)
	}
	f.drained = &drainState{result.Done, result.Reason, result.Message}
	if result.Done {
		return true, nil
	}
	f.deletionWaitsFor = &waiting{result.Reason, result.Message}
	requeueAfter(f, result.Wait)
	if !late {
		requeueAfter(f, started.Add(f.settings.drain).Sub(f.now)+time.Second)
	}
	return false, nil
}

// cordon keeps new pods off a node that is to be drained. One that is silent
// together with others is left alone for now.
func (c *Controller) cordon(ctx context.Context, f *facts, late bool) (bool, error) {
	waits, err := c.drainPausedByOutage(ctx, f, late)
	if err != nil {
		return false, err
	}
	if waits {
		f.deletionWaitsFor = f.waitsFor
		requeueAfter(f, f.machine.DeletionTimestamp.Add(f.settings.drain).Sub(f.now)+time.Second)
		return false, nil
	}
	if err := c.drainer.MarkTerminating(ctx, f.node, c.terminatingReason(f)); err != nil {
		return false, err
	}
	return true, c.drainer.Cordon(ctx, f.node)
}

// terminatingReason says on the node why its machine goes.
func (c *Controller) terminatingReason(f *facts) string {
	if unhealthyReason(f.node.Status.Conditions, f.settings.nodeConditions) != "" {
		return machinev1.ReasonUnhealthy
	}
	return machinev1.ReasonScaleDown
}

// forceDrain reports whether pods are deleted without asking: the user wants it, or
// the kubelet has been silent for so long that it will not confirm an eviction.
func (c *Controller) forceDrain(f *facts) bool {
	return forceDeletion(f.machine) || longUnhealthy(f.node, f.now)
}

// unresponsiveLimit is how long a node may be unready or read-only before its pods are
// not waited for any more.
const unresponsiveLimit = 5 * time.Minute

// longUnhealthy reports whether node has not been Ready, or its file system not
// been writable, for so long that draining it in good order is hopeless.
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

// drainRequest says how the node is drained.
func (c *Controller) drainRequest(ctx context.Context, f *facts, started time.Time, force bool) drain.Request {
	r := drain.Request{
		Node: f.node, Started: started, Timeout: f.settings.drain, MaxEvictRetries: f.settings.maxEvictRetries,
		PVDetachTimeout: c.Options.PVDetachTimeout, PVReattachTimeout: c.Options.PVReattachTimeout, Force: force,
	}
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil || resolved.Driver == nil {
		return r
	}
	if namer, ok := resolved.Driver.(cloud.VolumeNamer); ok {
		r.VolumeID = func(pv *corev1.PersistentVolumeSpec) (string, bool) { return namer.VolumeID(volumeOf(pv)) }
	}
	return r
}

// volumeOf is what a persistent volume says about its place.
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
