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

// listLiveSets returns the deployment's sets on the API server. It asks for those
// with the label that ours have from birth, and for those without: MCM's lack it
// until they are dressed. To read all sets of the namespace for each deployment
// would cost the square of the number of deployments.
func (s *scope) listLiveSets(ctx context.Context) ([]*machinev1.MachineSet, error) {
	selectors, err := s.liveSetSelectors()
	if err != nil {
		return nil, err
	}
	var owned []*machinev1.MachineSet
	for _, which := range selectors {
		list := &machinev1.MachineSetList{}
		err := s.Live.List(ctx, list, client.InNamespace(s.d.Namespace), client.MatchingLabelsSelector{Selector: which})
		if err != nil {
			return nil, fmt.Errorf("list machine sets on the API server: %w", err)
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], s.d) {
				owned = append(owned, &list.Items[i])
			}
		}
	}
	return owned, nil
}

// liveSetSelectors selects the sets that can be the deployment's. Together they leave out
// those that carry the name of another deployment; a name that no label can hold
// leaves out none.
func (s *scope) liveSetSelectors() ([]labels.Selector, error) {
	if len(validation.IsValidLabelValue(s.d.Name)) > 0 {
		return []labels.Selector{labels.Everything()}, nil
	}
	without, err := labels.NewRequirement(machinev1.DeploymentNameLabel, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select machine sets without the name of a deployment: %w", err)
	}
	named := labels.SelectorFromSet(labels.Set{machinev1.DeploymentNameLabel: s.d.Name})
	return []labels.Selector{named, labels.NewSelector().Add(*without)}, nil
}

// ensureCacheCurrent makes sure, before a set is made or resized, that the deployment on the
// API server is the one that this was decided from, and not held. The caches of
// two kinds do not wait for each other, and a user may scale to and fro: the lock
// of the write covers the set alone.
func (s *scope) ensureCacheCurrent(ctx context.Context) error {
	live := &machinev1.MachineDeployment{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(s.d), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read machine deployment on the API server: %w", err)
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
