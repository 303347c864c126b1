package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
)

// leave takes a Machine's node and VM away. Each step is done when what it
// looks at is gone; one that is not done ends the pass.
func (c *Controller) leave(ctx context.Context, f *facts) error {
	if !controllerutil.ContainsFinalizer(f.machine, machinev1.Finalizer) {
		f.released = true // others' finalizers hold it; ours never made anything for it, or is done
		return nil
	}
	for _, step := range []struct {
		name string // as MCM calls it
		take func(context.Context, *facts) (bool, error)
	}{
		{machinev1.StepGetVMStatus, c.confirm},
		{machinev1.StepGetVMStatus, c.find},
		{machinev1.StepDrain, c.drain},
		{machinev1.StepDeleteAttachments, c.detach},
		{machinev1.StepDeleteVM, c.destroy},
		{machinev1.StepDeleteNode, c.release},
	} {
		f.step = step.name
		if done, err := step.take(ctx, f); err != nil || !done {
			return err
		}
	}
	return nil
}

// find learns the node of a Machine that was deleted before it was recorded.
func (c *Controller) find(ctx context.Context, f *facts) (bool, error) {
	if c.Target == nil || f.nodeName != "" {
		return true, nil
	}
	found, err := c.remembered(ctx, f)
	if err != nil {
		return false, err
	}
	if !isLabelValue(found.NodeName) || found.NodeName == "" {
		return true, nil // it has no node, or one whose name could never be recorded
	}
	if err := c.record(ctx, f, found); err != nil {
		return false, fmt.Errorf("record Node %s: %w", found.NodeName, err)
	}
	return true, c.lookAtNode(ctx, f)
}

// remembered is what the cloud knows of the Machine's VM; the zero VM if it
// has none, or if the cloud cannot be asked.
func (c *Controller) remembered(ctx context.Context, f *facts) (cloud.VM, error) {
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return cloud.VM{}, err
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return cloud.VM{}, nil //nolint:nilerr // destroy says so; without the cloud there is no way to learn a node
	}
	found, err := account.Get(ctx, c.ref(f.machine, resolved))
	if code := cloud.CodeOf(err); err != nil && (code == cloud.NotFound || (code == cloud.Denied && mayGo(f.machine))) {
		return cloud.VM{}, nil
	}
	return found, err
}

// drain moves the pods off the node. A node that another Machine claims, or
// that belongs to another VM, is left alone.
func (c *Controller) drain(ctx context.Context, f *facts) (bool, error) {
	if f.node == nil || !ownsNode(f) || c.engine.Going(machinev1.OwnerID(f.machine)) {
		return true, nil
	}
	started := f.machine.DeletionTimestamp.Time
	late := f.now.Sub(started) > f.settings.drain
	if ready, err := c.shut(ctx, f, late); err != nil || !ready {
		return false, err
	}
	result, err := c.drainer.Drain(ctx, c.drainRequest(ctx, f, started, late || c.mustForce(f)))
	if err != nil {
		f.leaving = &waiting{machinev1.ReasonDraining, fmt.Sprintf("Drain of Node %s failed", f.node.Name)}
		return false, fmt.Errorf("drain Node %s: %w", f.node.Name, err)
	}
	f.drained = &drainState{result.Done, result.Reason, result.Message}
	if result.Done {
		return true, nil
	}
	f.leaving = &waiting{result.Reason, result.Message}
	sooner(f, result.Wait)
	if !late {
		sooner(f, started.Add(f.settings.drain).Sub(f.now)+time.Second)
	}
	return false, nil
}

// shut keeps new pods off a node that is to be drained. One that is silent
// together with others is left alone for now.
func (c *Controller) shut(ctx context.Context, f *facts, late bool) (bool, error) {
	waits, err := c.partitioned(ctx, f, late)
	if err != nil {
		return false, err
	}
	if waits {
		f.leaving = f.waiting
		sooner(f, f.machine.DeletionTimestamp.Add(f.settings.drain).Sub(f.now)+time.Second)
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

// ownsNode reports whether the node of that name is this Machine's. A node of
// another VM, one that registered under the name of another machine, or whose
// other claimant lives, is not ours to drain or delete.
func ownsNode(f *facts) bool {
	if f.owner != ownerUnproven {
		return f.owner == ownerThis
	}
	name := f.node.Labels[machinev1.MachineNameLabel]
	return f.rival == "" && (name == "" || name == f.machine.Name)
}

// mustForce reports whether pods are deleted without asking: the user wants it, or
// the kubelet has been silent for so long that it will not confirm an eviction.
func (c *Controller) mustForce(f *facts) bool {
	return forced(f.machine) || longUnhealthy(f.node, f.now)
}

// silence is how long a node may be unready or read-only before its pods are
// not waited for any more.
const silence = 5 * time.Minute

// longUnhealthy reports whether node has not been Ready, or its file system not
// been writable, for so long that draining it in good order is hopeless.
func longUnhealthy(node *corev1.Node, now time.Time) bool {
	for _, n := range node.Status.Conditions {
		bad := (n.Type == corev1.NodeReady && n.Status != corev1.ConditionTrue) ||
			(n.Type == "ReadonlyFilesystem" && n.Status != corev1.ConditionFalse)
		if bad && now.Sub(n.LastTransitionTime.Time) > silence {
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

// detach removes the volume attachments of a node whose pods were not waited
// for: nobody else would while the kubelet is silent.
func (c *Controller) detach(ctx context.Context, f *facts) (bool, error) {
	if f.node == nil || !ownsNode(f) {
		return true, nil
	}
	late := f.now.Sub(f.machine.DeletionTimestamp.Time) > f.settings.drain
	if !late && !c.mustForce(f) {
		return true, nil
	}
	remaining, err := c.drainer.DeleteAttachments(ctx, f.node)
	if err != nil {
		return false, err
	}
	if len(remaining) == 0 {
		return true, nil
	}
	f.leaving = &waiting{machinev1.ReasonDetachingVolumes, fmt.Sprintf("%d volumes of Node %s are still attached",
		len(remaining), f.node.Name)}
	sooner(f, failedRetry)
	return false, nil
}
