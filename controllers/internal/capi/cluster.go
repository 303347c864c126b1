// Package capi has what the controllers of Cluster API's kinds share of its
// contract: which Cluster an object belongs to, whether it is paused or being
// moved, and how its conditions are set. Cluster API's own helpers are used where
// they need no more requests: its patch helper writes spec, status and conditions
// with one request each, and its conditions carry the time of the process.
package capi

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// ClusterOf returns the Cluster that o names by its label or owns it; nil if it
// names none, or one that does not exist. name is empty if it names none.
func ClusterOf(ctx context.Context, c client.Reader, o client.Object) (cluster *clusterv1.Cluster, name string,
	err error,
) {
	if name = ClusterName(o); name == "" {
		return nil, "", nil
	}
	cluster = &clusterv1.Cluster{}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, cluster); {
	case apierrors.IsNotFound(err):
		return nil, name, nil
	case err != nil:
		return nil, name, fmt.Errorf("read Cluster %s: %w", name, err)
	}
	return cluster, name, nil
}

// ClusterName is the name of the Cluster that o belongs to, empty if it is not known.
func ClusterName(o client.Object) string {
	if name := o.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	return ownerName(o, "Cluster")
}

// MachineOf returns the Machine that owns o; nil if none does, or if it does not exist.
func MachineOf(ctx context.Context, c client.Reader, o client.Object) (*clusterv1.Machine, error) {
	name := ownerName(o, "Machine")
	if name == "" {
		return nil, nil //nolint:nilnil // no owner is a fact, not a failure
	}
	m := &clusterv1.Machine{}
	err := c.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, fmt.Errorf("read Machine %s: %w", name, err)
	}
	return m, nil
}

// ownerName is the name of o's owner of that kind of Cluster API's core group.
func ownerName(o client.Object, kind string) string {
	for _, ref := range o.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && ref.Kind == kind && gv.Group == clusterv1.GroupVersion.Group {
			return ref.Name
		}
	}
	return ""
}

// InfraClusterOf returns the MCMCluster of a Cluster; nil if it has another
// infrastructure, or none yet.
func InfraClusterOf(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (*infrav1.MCMCluster, error) {
	if cluster == nil || !NamesInfraCluster(cluster) {
		return nil, nil //nolint:nilnil // no MCMCluster is a fact, not a failure
	}
	infra := &infrav1.MCMCluster{}
	err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}, infra)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, fmt.Errorf("read MCMCluster %s: %w", cluster.Spec.InfrastructureRef.Name, err)
	}
	return infra, nil
}

// NamesInfraCluster reports whether the infrastructure of a Cluster is an MCMCluster.
func NamesInfraCluster(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef
	return ref.Kind == "MCMCluster" && ref.APIGroup == infrav1.GroupVersion.Group && ref.Name != ""
}

// ClusterChanged leaves out updates of a Cluster that change nothing that
// machines, bootstrap configs, templates and control planes wait for: the pause, what
// is ready, the control plane's name, and the deletion.
func ClusterChanged() predicate.Predicate {
	type gates struct {
		paused, deleting, infrastructure, controlPlane bool
		controlPlaneRef                                clusterv1.ContractVersionedObjectReference
	}
	of := func(c *clusterv1.Cluster) gates {
		return gates{
			ptr.Deref(c.Spec.Paused, false), !c.DeletionTimestamp.IsZero(),
			ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false),
			conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition), c.Spec.ControlPlaneRef,
		}
	}
	return watch.Updates(func(before, after *clusterv1.Cluster) bool { return of(before) != of(after) })
}

// Paused returns why o is paused; empty if it is not. cluster may be nil.
func Paused(cluster *clusterv1.Cluster, o client.Object) string {
	var why []string
	if cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		why = append(why, "Cluster spec.paused is set to true")
	}
	if annotations.HasPaused(o) {
		why = append(why, "the object has the annotation "+clusterv1.PausedAnnotation)
	}
	return strings.Join(why, ", ")
}

// PausedCondition returns the condition Paused; why is what Paused has returned.
// EnsurePausedCondition of Cluster API would write it in a request of its own.
func PausedCondition(why string) metav1.Condition {
	if why != "" {
		return metav1.Condition{
			Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason,
			Message: why,
		}
	}
	return metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.NotPausedReason,
	}
}

// Moving reports whether clusterctl deletes o here because it has moved o to
// another management cluster.
func Moving(o client.Object) bool {
	_, ok := o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return ok
}

// Externally reports whether o, an infrastructure cluster, is managed externally.
func Externally(o client.Object) bool {
	return annotations.IsExternallyManaged(o)
}

// Watched reports whether o is for a manager with that watch filter. An empty
// filter matches all objects.
func Watched(o client.Object, filter string) bool {
	return filter == "" || labels.HasWatchLabel(o, filter)
}
