package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// Namespace are what there is of both APIs in one namespace: what pools are
// read from, and what they may collide with.
type Namespace struct {
	read.Objects

	Classes map[string]*machinev1.MachineClass // by name
}

// Apart reports whether two API servers are known to be those of two clusters: each has
// a namespace kube-system of its own. One that does not show it is not known.
func Apart(ctx context.Context, control, target client.Reader) (bool, error) {
	var ids []types.UID
	for _, c := range []client.Reader{control, target} {
		var system corev1.Namespace
		err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
		}
		ids = append(ids, system.UID)
	}
	return ids[0] != ids[1], nil
}

// ReadNamespace reads a namespace of the cluster with the objects.
func ReadNamespace(ctx context.Context, c client.Reader, namespace string) (*Namespace, error) {
	found, err := read.List(ctx, c, namespace, read.Classes, read.Deployments, read.Sets, read.Machines, read.Clusters,
		read.ControlPlanes, read.ClusterDeployments, read.ClusterSets, read.ClusterMachines, read.MCMMachines,
		read.MachineTemplates, read.ConfigTemplates, read.HealthChecks)
	if err == nil {
		err = errors.Join(found.Require(), found.ReadLeases(ctx, c), found.ReadSecrets(ctx, c))
	}
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	s := &Namespace{Objects: *found, Classes: map[string]*machinev1.MachineClass{}}
	for i := range s.MachineClasses {
		s.Classes[s.MachineClasses[i].Name] = &s.MachineClasses[i]
	}
	return s, nil
}

// ForeignLeases are findings about leases that somebody else holds: two managers that do
// not know of each other must not work on the same machines.
func (s *Namespace) ForeignLeases(now time.Time) []Finding {
	var out []Finding
	for i := range s.Leases {
		l := &s.Leases[i]
		if HolderOf(l, now) != HolderForeign {
			continue
		}
		out = append(out, Finding{
			Level: Blocked, Object: objects.Name("Lease", l), Field: "spec.holderIdentity",
			Text: fmt.Sprintf("%s holds it, which is no manager of this project: Machine Controller Manager most likely",
				objects.Value(l.Spec.HolderIdentity)),
			Remedy: "take the fleet over by the native API first: kubectl mcm takeover check",
		})
	}
	return out
}
