package recovery

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// identity is what a Machine or MCMMachine that exists has of its VM.
type identity struct{ kind, name, ownerID, providerID string }

// identities returns those of both APIs.
func identities(s *State) []identity {
	var out []identity
	for i := range s.Machines {
		m := &s.Machines[i]
		out = append(out, identity{"Machine ", m.Name, machinev1.OwnerID(m), m.Spec.ProviderID})
	}
	for i := range s.MCMMachines {
		m := &s.MCMMachines[i]
		out = append(out, identity{"MCMMachine ", m.Name, machinev1.OwnerID(m), m.Spec.ProviderID})
	}
	return out
}

// existing reports whether the VM has a machine already, or why it can get none.
func (r *planner) existing(vm *VM) (bool, *problem) {
	switch {
	case vm.Machine == "":
		return false, &problem{"it does not carry the name of a machine", decideRemedy}
	case vm.ProviderID == "":
		return false, &problem{"its providerID is not listed", "wait for the manager to list it, or update the manager"}
	}
	all := identities(r.state)
	if slices.ContainsFunc(all, func(m identity) bool { return m.has(vm) }) {
		return true, nil
	}
	if i := slices.IndexFunc(all, func(m identity) bool { return m.related(vm) }); i >= 0 {
		return false, &problem{all[i].kind + all[i].name + " exists, with another VM or none", decideRemedy}
	}
	if why := r.withoutMCMMachine(vm); why != nil {
		return false, why
	}
	if key := r.decided(vm); key != "" {
		return false, &problem{
			"a person has decided about it in the annotation " + key + " of a MachineClass",
			"name it by its ID to recover it all the same",
		}
	}
	if why := r.sharesIdentity(vm); why != nil {
		return false, why
	}
	if vm.Second {
		return false, &problem{vm.Why, decideRemedy}
	}
	return false, nil
}

// related reports whether the machine has the name or the owner id of the VM.
func (m identity) related(vm *VM) bool {
	return m.name == vm.Machine || vm.OwnerID != "" && m.ownerID == vm.OwnerID
}

// has reports whether the VM is the machine's, or will be: a machine that does not know its
// VM yet finds it by the owner id.
func (m identity) has(vm *VM) bool {
	switch m.providerID {
	case "":
		return vm.OwnerID != "" && m.ownerID == vm.OwnerID
	case vm.ProviderID, vm.NodeProviderID:
		return true
	}
	return m.related(vm) && objects.SameVM(m.providerID, vm.ProviderID)
}

// withoutMCMMachine returns that a Machine of Cluster API has the name and no MCMMachine,
// unless an interrupted recovery has created it.
func (r *planner) withoutMCMMachine(vm *VM) *problem {
	m := objects.Find(r.state.ClusterMachines, vm.Machine)
	if vm.API != migration.ClusterAPI || m == nil || r.halfMade(vm) != nil {
		return nil
	}
	return &problem{
		"Machine " + m.Name + " exists, and its MCMMachine does not",
		"delete the Machine, or restore the MCMMachine",
	}
}

// halfMade returns the Machine that an interrupted recovery has created for the VM, and whose
// MCMMachine it has not; nil for none.
func (r *planner) halfMade(vm *VM) *clusterv1.Machine {
	if vm.API != migration.ClusterAPI || vm.Machine == "" {
		return nil
	}
	m := objects.Find(r.state.ClusterMachines, vm.Machine)
	if m == nil || !Held(m) || !m.DeletionTimestamp.IsZero() ||
		objects.Find(r.state.MCMMachines, vm.Machine) != nil ||
		m.Spec.ProviderID != vm.NodeProviderID && !objects.SameVM(m.Spec.ProviderID, vm.ProviderID) {
		return nil
	}
	return m
}

// sharesIdentity returns that another VM is listed with the same machine name or owner id,
// unless vm is the only one of them that has a Node. VMs that are kept, or approved for
// removal, are decided about.
func (r *planner) sharesIdentity(vm *VM) *problem {
	var others []string
	nodes := 0
	for i := range r.listed {
		other := &r.listed[i]
		if other.ID == vm.ID || !sameIdentity(vm, other) || r.decided(other) != "" {
			continue
		}
		others = append(others, other.ID)
		if r.lookUpNode(other) != nil {
			nodes++
		}
	}
	if len(others) == 0 || nodes == 0 && r.lookUpNode(vm) != nil {
		return nil
	}
	return &problem{
		"VM " + join(others) + " has the same machine name or owner ID",
		"find out which one serves, and approve or keep the other with kubectl mcm orphans",
	}
}

// sameIdentity reports whether two VMs are of one machine.
func sameIdentity(a, b *VM) bool {
	return a.Machine == b.Machine && a.ClusterID == b.ClusterID || a.OwnerID != "" && a.OwnerID == b.OwnerID
}
