package machinedeployment

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
)

// listLiveSets lists the deployment's sets uncached. It asks for those with the
// label deployment-name, which our sets are created with, and for those without
// it: MCM's lack it until syncSetMetadata. Reading all sets of the namespace for
// each deployment would cost the square of the number of deployments.
func (s *scope) listLiveSets(ctx context.Context) ([]*machinev1.MachineSet, error) {
	selectors, err := s.liveSetSelectors()
	if err != nil {
		return nil, err
	}
	var owned []*machinev1.MachineSet
	for _, selector := range selectors {
		list := &machinev1.MachineSetList{}
		err := s.Live.List(ctx, list, client.InNamespace(s.d.Namespace), client.MatchingLabelsSelector{Selector: selector})
		if err != nil {
			return nil, fmt.Errorf("list MachineSets on the API server: %w", err)
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], s.d) {
				owned = append(owned, &list.Items[i])
			}
		}
	}
	return owned, nil
}

// liveSetSelectors returns selectors of the sets that the deployment may own: all
// but those labelled with the name of another deployment. A name that is no valid
// label value selects all.
func (s *scope) liveSetSelectors() ([]labels.Selector, error) {
	if len(validation.IsValidLabelValue(s.d.Name)) > 0 {
		return []labels.Selector{labels.Everything()}, nil
	}
	without, err := labels.NewRequirement(machinev1.DeploymentNameLabel, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select MachineSets without label %s: %w", machinev1.DeploymentNameLabel, err)
	}
	named := labels.SelectorFromSet(labels.Set{machinev1.DeploymentNameLabel: s.d.Name})
	return []labels.Selector{named, labels.NewSelector().Add(*without)}, nil
}

// ensureCacheCurrent returns a conflict, before a set is created or resized, if the
// deployment on the API server has another spec than the one which this was
// decided from, or is held. The caches of two kinds are not in step, and the
// optimistic lock of the write covers the set alone.
func (s *scope) ensureCacheCurrent(ctx context.Context) error {
	live := &machinev1.MachineDeployment{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(s.d), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read MachineDeployment on the API server: %w", err)
	}
	if machinev1.Held(live) {
		return hold.Behind(s.d.Name)
	}
	if live.UID != s.d.UID || live.Generation != s.d.Generation {
		resource := machinev1.GroupVersion.WithResource("machinedeployments").GroupResource()
		return apierrors.NewConflict(resource, s.d.Name, errors.New("the cache does not show its last change yet"))
	}
	return nil
}
