package driverkit

import (
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Carries reports whether tags have all of the keys that make a resource the class's, as
// Ownership returns them. No keys make nothing the class's.
func Carries(tags map[string]string, keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool {
		_, has := tags[key]
		return !has
	})
}

// IsOf reports whether a resource of the class with this owner id and machine name is
// provably of r. Where both have an owner id, that decides: a machine that was restored
// elsewhere keeps only its id. Otherwise the name does, because MCM made the resource. A
// Ref without a name is of any: look for its providerID alone.
func IsOf(r cloud.Ref, ownerID, machineName string) bool {
	if r.OwnerID != "" && ownerID != "" {
		return ownerID == r.OwnerID
	}
	return r.Name == "" || machineName == r.Name
}

// One returns the VM of r among those that are provably of r. A VM that is being deleted
// counts only where there is no other. The error has the code NotFound if there is none,
// and Unknown with all ids if there are several: no one knows which is the machine's.
func One(op string, r cloud.Ref, found []cloud.VM) (cloud.VM, error) {
	staying := slices.DeleteFunc(slices.Clone(found), func(vm cloud.VM) bool { return vm.State == cloud.StateDeleting })
	switch {
	case len(found) == 0:
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, op, "NotFound", "the cloud shows no VM of machine %q", r.Name)
	case len(staying) == 0:
		return found[0], nil
	case len(staying) == 1:
		return staying[0], nil
	}
	var ids []string
	for _, vm := range staying {
		ids = append(ids, vm.ID)
	}
	return cloud.VM{}, SeveralVMs(op, r, ids)
}

// SeveralVMs returns the error of a machine that has the VMs with these ids.
func SeveralVMs(op string, r cloud.Ref, ids []string) *cloud.Error {
	ids = slices.Sorted(slices.Values(ids))
	return cloud.Errorf(cloud.Unknown, op, "SeveralVMs", "machine %q has %d VMs: %s; delete all but one", r.Name, len(ids),
		strings.Join(ids, ", "))
}
