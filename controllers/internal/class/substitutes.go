package class

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// A Resolve is Resolver.Resolve, or Resolver.ResolveForClusterAPI.
type Resolve func(ctx context.Context, c client.Reader, namespace, name string) (Resolved, error)

// A Search is for classes that may reach a VM in place of its own class.
type Search struct {
	Resolve    Resolve
	Namespace  string
	ProviderID string
	First      string // name of the class that comes first; empty for none
	Own        string // name of the VM's own class; only its Secrets are merged for a deletion
}

// Substitutes returns the classes of the namespace that may reach the VM of that providerID:
// those of a cloud that knows the providerID, with credentials, and whose driver keeps owner
// ids, without which it cannot be proved whose the VM is. They are sorted by name. Of classes
// with equal Place only one is returned. A class whose Secrets may not be used together is there
// with its Alternatives. It makes no call to a cloud.
func Substitutes(ctx context.Context, c client.Reader, search Search) ([]Resolved, error) {
	var list machinev1.MachineClassList
	if err := c.List(ctx, &list, client.InNamespace(search.Namespace)); err != nil {
		return nil, fmt.Errorf("list MachineClasses: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b machinev1.MachineClass) int {
		switch search.First {
		case a.Name:
			return -1
		case b.Name:
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	seen := map[string]bool{}
	var found []Resolved
	for i := range list.Items {
		r, err := search.Resolve(ctx, c, search.Namespace, list.Items[i].Name)
		if apierrors.IsForbidden(err) {
			continue // its Secret may not be read
		}
		if err != nil {
			return nil, err
		}
		for _, one := range append(r.Alternatives, r) {
			if one.merged && list.Items[i].Name != search.Own {
				continue
			}
			if one.Reaches(search.ProviderID) && !seen[one.Place()] {
				seen[one.Place()] = true
				found = append(found, one)
			}
		}
	}
	return found, nil
}

// Reaches reports whether the class has what is needed to ask its cloud for the VM of that
// providerID, and for its owner.
func (r Resolved) Reaches(providerID string) bool {
	if r.Object == nil || r.Err(cloud.BlocksAll) != nil || r.Driver.Traits().Legacy {
		return false
	}
	_, known := r.Driver.DecodeProviderID(providerID)
	return known
}

// Place is equal for classes that look for VMs in the same place with the same credentials: a
// short hash. A class without driver has none.
func (r Resolved) Place() string {
	if r.Driver == nil {
		return ""
	}
	c := r.Class
	h := sha256.Sum256(fmt.Appendf(nil, "%q", []string{
		r.Driver.Traits().Name, r.Credentials.Fingerprint(), c.Endpoint, c.Owner, c.Region, c.Zone,
	}))
	return hex.EncodeToString(h[:8])
}
