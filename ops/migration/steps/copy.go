package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// copyToNewSide writes the new side as the old one is, at rest, looks whether all
// of it fits, and makes it the truth.
func (e *Engine) copyToNewSide(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	if deleting(s, m.To.Other()) {
		return "", e.enter(ctx, m, s, migration.PhaseHolding) // a user has deleted one meanwhile, which comes first
	}
	copyAll := e.copyToClusterAPI
	if m.To == migration.Native {
		copyAll = e.copyToNative
	}
	if done, waiting, err := copyAll(ctx, m, s); err != nil || !done {
		return waiting, err
	}
	m.Generation = s.Generation(m.To.Other())
	return "", e.enter(ctx, m, s, migration.PhaseSwitching)
}

// deleting reports whether a machine of that API is being deleted.
func deleting(s *migration.PoolState, d migration.API) bool {
	return len(going(s.Tiers(d)[2:])) > 0
}

// copyToClusterAPI writes the copies of Cluster API, and lets its
// MCMMachines look for their VMs. They make and delete none.
func (e *Engine) copyToClusterAPI(ctx context.Context, m *move, s *migration.PoolState) (done bool, waiting string,
	err error,
) {
	if waiting, err = e.ensureCluster(ctx, m, s); err != nil || waiting != "" {
		return false, waiting, err
	}
	want, findings := fields.ToClusterAPI(s, m.options())
	if err := refuse(m.Pool, findings); err != nil {
		return false, "", err
	}
	if done, waiting, err = e.removeStale(ctx, s, &want); err != nil || !done {
		return false, waiting, err
	}
	if wrote, err := e.writeToClusterAPI(ctx, s, &want); err != nil || wrote {
		return false, "", err
	}
	missing, err := e.unpause(ctx, objects.Pointers(s.ClusterAPI.MCMMachines))
	if err != nil || len(missing) > 0 {
		return false, fmt.Sprintf("this provider's controllers have not looked for the VMs of %s yet; do they run?",
			objects.List(missing)), err
	}
	waiting = vmsPending(s)
	return waiting == "", waiting, nil
}

// writeToClusterAPI writes what is missing of the first kind that misses something. Each Machine goes before
// what it owns: an MCMMachine without its Machine would be cleaned up by Cluster API.
func (e *Engine) writeToClusterAPI(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	have := &s.ClusterAPI
	cluster := refTo(s.Cluster.Cluster, false)
	for _, step := range []func() (bool, error){
		func() (bool, error) {
			return write(ctx, e, want.MachineTemplates, have.MachineTemplates,
				ownedBy[*infrav1.MCMMachineTemplate](cluster), nil)
		},
		func() (bool, error) {
			return write(ctx, e, want.ConfigTemplates, have.ConfigTemplates,
				ownedBy[*bootstrapv1.MCMConfigTemplate](cluster), nil)
		},
		func() (bool, error) {
			return write(ctx, e, one(want.Deployment), one(have.Deployment), ownedBy[*clusterv1.MachineDeployment](cluster),
				func(changed, want *clusterv1.MachineDeployment, _ *metav1.OwnerReference) {
					if !matches(want.Spec, changed.Spec) || !ptr.Equal(want.Spec.Replicas, changed.Spec.Replicas) {
						changed.Spec = want.Spec
					}
				})
		},
		func() (bool, error) {
			owner := cluster
			if have.Deployment != nil {
				owner = refTo(have.Deployment, true)
			}
			return write(ctx, e, want.Sets, have.Sets, ownedBy[*clusterv1.MachineSet](owner),
				func(changed, want *clusterv1.MachineSet, _ *metav1.OwnerReference) {
					if !matches(want.Spec, changed.Spec) || !ptr.Equal(want.Spec.Replicas, changed.Spec.Replicas) {
						changed.Spec = want.Spec
					}
				})
		},
		func() (bool, error) {
			return write(ctx, e, want.Machines, have.Machines, func(m *clusterv1.Machine) (*metav1.OwnerReference, bool) {
				return cmp.Or(ownerAmong(have.Sets, m), cluster), true
			}, nil)
		},
		func() (bool, error) { return e.writeOfMachines(ctx, want, have) },
	} {
		if wrote, err := step(); err != nil || wrote {
			return wrote, err
		}
	}
	return false, nil
}

// writeOfMachines writes what Machines own, of those that there are.
func (e *Engine) writeOfMachines(ctx context.Context, want, have *migration.ClusterAPIObjects) (wrote bool, err error) {
	machines, secrets := map[string]*metav1.OwnerReference{}, map[string]*metav1.OwnerReference{}
	for i := range have.Machines {
		ref := refTo(&have.Machines[i], true)
		machines[ref.Name], secrets[ptr.Deref(have.Machines[i].Spec.Bootstrap.DataSecretName, "")] = ref, ref
	}
	wrote, err = write(ctx, e, want.BootstrapSecrets, have.BootstrapSecrets,
		func(o *corev1.Secret) (*metav1.OwnerReference, bool) { return secrets[o.Name], secrets[o.Name] != nil }, nil)
	if err != nil {
		return wrote, err
	}
	also, err := write(ctx, e, want.MCMMachines, have.MCMMachines,
		func(o *infrav1.MCMMachine) (*metav1.OwnerReference, bool) {
			return machines[o.Name], machines[o.Name] != nil
		},
		func(changed, want *infrav1.MCMMachine, _ *metav1.OwnerReference) {
			changed.Spec.NodeTemplate = want.Spec.NodeTemplate
		})
	return wrote || also, err
}

// vmsPending tells of an MCMMachine that has not found its VM yet; empty if all have.
func vmsPending(s *migration.PoolState) string {
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; !provisioned(o) && !vmGone(o) {
			return fmt.Sprintf("%s has not found VM %s yet: %s", objects.Title(o), o.Spec.ProviderID, vmCondition(o))
		}
	}
	return ""
}

// refuse fails if something cannot be expressed on the other API.
func refuse(p migration.Pool, findings []migration.Finding) error {
	blocked := slices.DeleteFunc(findings, func(f migration.Finding) bool { return f.Level != migration.Blocked })
	if len(blocked) > 0 {
		return &RefusedError{Pool: p, Findings: blocked}
	}
	return nil
}

// removeStale removes copies of machines that are gone from the old side, or that
// were made for another VM, and keeps all others.
func (e *Engine) removeStale(ctx context.Context, s *migration.PoolState, want *migration.ClusterAPIObjects) (done bool,
	waiting string, err error,
) {
	stale := staleCopies(s, want)
	if len(stale) == 0 {
		wrote, err := e.keep(ctx, remains(s, migration.ClusterAPI))
		return !wrote && err == nil, "", err
	}
	if missing, err := e.pause(ctx, "", stale); err != nil || len(missing) > 0 {
		return false, pausePending(migration.ClusterAPI, missing), err
	}
	return false, "", e.remove(ctx, stale)
}

// keep takes the mark off objects that a command was about to remove when it was killed, and
// reports whether there were any: this provider's controllers leave marked ones alone.
func (e *Engine) keep(ctx context.Context, list []client.Object) (wrote bool, err error) {
	for _, o := range list {
		if _, marked := o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; !marked {
			continue
		}
		if err := e.annotate(ctx, o, map[string]*string{clusterctlv1.DeleteForMoveAnnotation: nil}); err != nil {
			return wrote, err
		}
		wrote = true
	}
	return wrote, nil
}

// staleCopies are the copies that are not wanted, or are being deleted.
func staleCopies(s *migration.PoolState, want *migration.ClusterAPIObjects) []client.Object {
	providerIDs := map[string]string{}
	for i := range want.Machines {
		providerIDs[want.Machines[i].Name] = want.Machines[i].Spec.ProviderID
	}
	all := slices.Concat(objects.Pointers(s.ClusterAPI.MCMMachines), objects.Pointers(s.ClusterAPI.Machines))
	return slices.DeleteFunc(all, func(o client.Object) bool {
		id, wanted := providerIDs[o.GetName()]
		return wanted && id == objects.ProviderID(o) && o.GetDeletionTimestamp().IsZero()
	})
}

// write makes what is missing of want, once owner says who owns it, and has change bring the others up to
// date; nil leaves them as they are. It reports whether it has written anything.
func write[T any, P objects.Object[T]](ctx context.Context, e *Engine, want, have []T,
	owner func(P) (ref *metav1.OwnerReference, there bool),
	change func(changed, want P, owner *metav1.OwnerReference),
) (wrote bool, err error) {
	for i := range want {
		o, did := P(&want[i]), false
		ref, there := owner(o)
		switch old := objects.Find[T, P](have, o.GetName()); {
		case old == nil && there:
			did, err = true, e.create(ctx, o, ref)
		case old != nil && change != nil:
			changed := old.DeepCopyObject().(P)
			change(changed, o, ref)
			did, err = e.update(ctx, old, changed)
		}
		if wrote = wrote || did; err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// ownedBy has one owner for all; nil leaves owners as they are wanted.
func ownedBy[P client.Object](ref *metav1.OwnerReference) func(P) (*metav1.OwnerReference, bool) {
	return func(P) (*metav1.OwnerReference, bool) { return ref, true }
}

// one is a list of what there may be one of.
func one[T any](o *T) []T {
	if o == nil {
		return nil
	}
	return []T{*o}
}

// ownerAmong is the reference to the set that an object is to belong to: the one with the name that its own
// owner reference gives. nil if there is none.
func ownerAmong[T any, P objects.Object[T]](sets []T, o client.Object) *metav1.OwnerReference {
	for _, ref := range o.GetOwnerReferences() {
		if set := objects.Find[T, P](sets, ref.Name); set != nil && ref.Kind == machinev1.MachineSetKind {
			return refTo(set, true)
		}
	}
	return nil
}

// copyToNative writes the native side, held, as Cluster API is. What is
// there already keeps its identity; what is missing is made.
func (e *Engine) copyToNative(ctx context.Context, m *move, s *migration.PoolState) (done bool, waiting string,
	err error,
) {
	if wrote, err := e.removeDeleted(ctx, s); err != nil || wrote {
		return false, "", err
	}
	for _, tier := range s.Tiers(migration.Native) {
		if missing, err := e.pause(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return false, pausePending(migration.Native, missing), err
		}
	}
	want, findings := fields.ToNative(s, m.options())
	if err := refuse(m.Pool, findings); err != nil {
		return false, "", err
	}
	for _, step := range []func(context.Context, *migration.PoolState, *migration.NativeObjects) (bool, error){
		e.writeToNative, e.writeNativeStatus, e.deleteSurplus,
	} {
		if wrote, err := step(ctx, s, &want); err != nil || wrote {
			return false, "", err
		}
	}
	return true, "", nil
}

// writeToNative writes what is missing, or differs, of the first kind of which something does.
func (e *Engine) writeToNative(ctx context.Context, s *migration.PoolState,
	want *migration.NativeObjects,
) (wrote bool, err error) {
	have := &s.Native
	wrote, err = write(ctx, e, one(want.Deployment), one(have.Deployment), ownedBy[*machinev1.MachineDeployment](nil),
		func(changed, want *machinev1.MachineDeployment, _ *metav1.OwnerReference) {
			changed.Labels, changed.Annotations, changed.Spec = want.Labels, want.Annotations, want.Spec
		})
	if err != nil || wrote {
		return wrote, err
	}
	var deployment *metav1.OwnerReference
	if have.Deployment != nil {
		deployment = refTo(have.Deployment, true)
	}
	wrote, err = write(ctx, e, want.Sets, have.Sets, ownedBy[*machinev1.MachineSet](deployment),
		func(changed, want *machinev1.MachineSet, owner *metav1.OwnerReference) {
			changed.Labels, changed.Annotations, changed.Spec = want.Labels, want.Annotations, want.Spec
			changed.OwnerReferences = withController(changed.OwnerReferences, owner)
		})
	if err != nil || wrote {
		return wrote, err
	}
	return write(ctx, e, want.Machines, have.Machines,
		func(m *machinev1.Machine) (*metav1.OwnerReference, bool) { return ownerAmong(have.Sets, m), true },
		func(changed, want *machinev1.Machine, owner *metav1.OwnerReference) {
			changed.Labels, changed.Annotations, changed.Spec = want.Labels, want.Annotations, want.Spec
			changed.Finalizers, changed.OwnerReferences = want.Finalizers, withController(changed.OwnerReferences, owner)
		})
}

// removeDeleted removes native objects that are being deleted although the pool's
// truth, Cluster API, still has them: what an unfinished finish, or a
// user, has deleted of the copy. Released, they would take their VMs along.
func (e *Engine) removeDeleted(ctx context.Context, s *migration.PoolState) (wrote bool, err error) {
	stale := going(s.Tiers(migration.Native)[:2])
	for i := range s.Native.Machines {
		o := &s.Native.Machines[i]
		if !o.DeletionTimestamp.IsZero() && objects.Find(s.ClusterAPI.Machines, o.Name) != nil {
			stale = append(stale, o)
		}
	}
	for _, o := range stale {
		if !pauseAcknowledged(o) {
			return false, fmt.Errorf("%s is being deleted and is not held: its VM may go; wait until it is gone",
				objects.Title(o))
		}
	}
	return len(stale) > 0, e.remove(ctx, stale)
}

// writeNativeStatus gives Machines that were made here the status of one that has
// joined; the API server takes none with the object.
func (e *Engine) writeNativeStatus(ctx context.Context, s *migration.PoolState,
	want *migration.NativeObjects,
) (wrote bool, err error) {
	for i := range want.Machines {
		have := objects.Find(s.Native.Machines, want.Machines[i].Name)
		if have == nil || have.Status.CurrentStatus.Phase != "" || want.Machines[i].Status.CurrentStatus.Phase == "" {
			continue
		}
		changed := have.DeepCopy()
		changed.Status = want.Machines[i].Status
		if err := e.Control.Status().Patch(ctx, changed, client.MergeFrom(have)); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("write the status of %s: %w", objects.Title(have), err)
		}
		wrote = true
	}
	return wrote, nil
}

// deleteSurplus asks for the deletion of native Machines that Cluster API
// has removed meanwhile. They are held: it is carried out after their release, and
// takes along whatever there still is.
func (e *Engine) deleteSurplus(ctx context.Context, s *migration.PoolState, want *migration.NativeObjects) (wrote bool,
	err error,
) {
	for i := range s.Native.Machines {
		o := &s.Native.Machines[i]
		if objects.Find(want.Machines, o.Name) != nil || !o.DeletionTimestamp.IsZero() {
			continue
		}
		if err := e.Control.Delete(ctx, o, asRead(o)); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("delete %s: %w", objects.Title(o), err)
		}
		wrote = true
	}
	return wrote, nil
}

// ensureCluster makes the Cluster of the pool if there is none, and says what it waits for.
func (e *Engine) ensureCluster(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	if s.Cluster.Cluster == nil {
		for _, o := range clusterObjects(m.Pool.Namespace, m.options()) {
			if err := client.IgnoreAlreadyExists(e.Control.Create(ctx, o)); err != nil {
				return "", fmt.Errorf("make %s: %w", objects.Title(o), err)
			}
		}
		return "Cluster " + m.Cluster + " is being made", nil
	}
	c := s.Cluster.Cluster
	switch {
	case !c.DeletionTimestamp.IsZero():
		return "", fmt.Errorf("Cluster %s is being deleted", c.Name) //nolint:staticcheck // a kind's name
	case ptr.Deref(c.Spec.Paused, false):
		return fmt.Sprintf("Cluster %s is paused (spec.paused): unpause it", c.Name), nil
	case !ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false):
		return fmt.Sprintf("the infrastructure of Cluster %s is not provisioned", c.Name), nil
	case !ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false):
		return fmt.Sprintf("the control plane of Cluster %s has not answered yet", c.Name), nil
	}
	return "", nil
}

// clusterObjects are a Cluster whose control plane is somebody else's, and what it names.
func clusterObjects(namespace string, o migration.Options) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: o.Cluster}
	controlPlane := &controlplanev1.MCMExternalControlPlane{ObjectMeta: meta}
	if o.KubeconfigSecret != "" {
		controlPlane.Spec.KubeconfigSecretRef = &controlplanev1.NameReference{Name: o.KubeconfigSecret}
	} else {
		controlPlane.Spec.SelfHosted = new(true)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMCluster", Name: o.Cluster,
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "MCMExternalControlPlane", Name: o.Cluster,
	}
	return []client.Object{&infrav1.MCMCluster{ObjectMeta: meta}, controlPlane, cluster}
}
