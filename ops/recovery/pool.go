package recovery

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nameAlphabet has the characters that API servers and Cluster API draw names from.
const (
	nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	drawnLength  = 5
)

// pool is a MachineSet of either API, with its MachineDeployment.
type pool struct {
	api        migration.API
	set        client.Object
	deployment client.Object // nil if it has none
	cluster    string        // name of its Cluster; Cluster API only
	class      string        // name of the MachineClass of its machines; empty if not known
	machines   []client.Object
	recovered  []*VMPlan
}

func (p *pool) replicas() int32 { return replicasOf(p.set) }

// replicasOf returns how many machines a set or deployment asks for.
func replicasOf(o client.Object) int32 { return ptr.Deref(objects.Replicas(o), 1) }

// pools returns the MachineSets of both APIs that exist and are not being deleted.
func pools(s *State) []*pool {
	out := append(nativePools(s), clusterPools(s)...)
	return slices.DeleteFunc(out, func(p *pool) bool { return !p.set.GetDeletionTimestamp().IsZero() })
}

func nativePools(s *State) []*pool {
	var out []*pool
	for i := range s.Sets {
		set := &s.Sets[i]
		p := &pool{api: migration.Native, set: set, class: set.Spec.Template.Spec.Class.Name}
		if ref := objects.ControllerOf(set, machinev1.MachineDeploymentKind); ref != nil {
			if d := objects.Find(s.Deployments, ref.Name); d != nil {
				p.deployment = d
			}
		}
		for j := range s.Machines {
			m := &s.Machines[j]
			if countsFor(m, set, set.Spec.Selector) && m.Status.CurrentStatus.Phase != machinev1.MachineTerminating &&
				m.Labels[machinev1.UpdateResultLabel] != machinev1.UpdateSuccessful {
				p.machines = append(p.machines, m)
			}
		}
		out = append(out, p)
	}
	return out
}

func clusterPools(s *State) []*pool {
	var out []*pool
	for i := range s.ClusterSets {
		set := &s.ClusterSets[i]
		p := &pool{api: migration.ClusterAPI, set: set, cluster: set.Spec.ClusterName}
		if t := objects.Find(s.MachineTemplates, set.Spec.Template.Spec.InfrastructureRef.Name); t != nil {
			p.class = t.Spec.Template.Spec.MachineClassRef.Name
		}
		if ref := objects.ControllerOf(set, machinev1.MachineDeploymentKind); ref != nil {
			if d := objects.Find(s.ClusterDeployments, ref.Name); d != nil {
				p.deployment = d
			}
		}
		for j := range s.ClusterMachines {
			if m := &s.ClusterMachines[j]; countsFor(m, set, &set.Spec.Selector) {
				p.machines = append(p.machines, m)
			}
		}
		out = append(out, p)
	}
	return out
}

// countsFor reports whether a machine counts as one of the set's: it is controlled by it, or
// will be adopted.
func countsFor(m, set client.Object, selector *metav1.LabelSelector) bool {
	if !m.GetDeletionTimestamp().IsZero() {
		return false
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		return owner.UID == set.GetUID()
	}
	return objects.Selects(selector, m.GetLabels())
}

// names reports whether the set may have given a machine this name.
func (p *pool) names(machine string) bool {
	if set, native := p.set.(*machinev1.MachineSet); native {
		_, ok := naming.NewNames(set).Ordinal(machine)
		return ok
	}
	suffix, ok := strings.CutPrefix(machine, p.set.GetName()+"-")
	return ok && drawn(suffix)
}

// made reports whether the owner id proves that the set has made the machine.
func (p *pool) made(vm *VM) bool {
	set, native := p.set.(*machinev1.MachineSet)
	if !native || vm.OwnerID == "" {
		return false
	}
	names := naming.NewNames(set)
	ordinal, ok := names.Ordinal(vm.Machine)
	return ok && names.OwnerID(ordinal) == vm.OwnerID
}

// deploymentNames reports whether a set of the pool's deployment may have given a machine
// this name: one that the backup does not have.
func (p *pool) deploymentNames(machine string) bool {
	if p.deployment == nil {
		return false
	}
	rest, ok := strings.CutPrefix(machine, p.deployment.GetName()+"-")
	set, last, found := strings.Cut(rest, "-")
	return ok && found && drawn(set) && drawn(last)
}

// drawn reports whether text looks like the drawn part of a name.
func drawn(text string) bool {
	return len(text) == drawnLength && strings.Trim(text, nameAlphabet) == ""
}

// revision returns the number of the set's template among those of its deployment.
func (p *pool) revision() int {
	key := machinev1.RevisionAnnotation
	if p.api == migration.ClusterAPI {
		key = clusterv1.RevisionAnnotation
	}
	n, _ := strconv.Atoi(p.set.GetAnnotations()[key]) // without one it is the oldest
	return n
}

// current returns the pool of the deployment's set with the newest template.
func current(all []*pool, of *pool) *pool {
	siblings := siblings(all, of)
	return slices.MaxFunc(siblings, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.revision(), b.revision()),
			a.set.GetCreationTimestamp().Compare(b.set.GetCreationTimestamp().Time),
			cmp.Compare(b.set.GetName(), a.set.GetName()))
	})
}

// siblings returns the pools of one deployment; of a set without one, itself.
func siblings(all []*pool, of *pool) []*pool {
	if of.deployment == nil {
		return []*pool{of}
	}
	var out []*pool
	for _, p := range all {
		if p.deployment != nil && p.api == of.api && p.deployment.GetName() == of.deployment.GetName() {
			out = append(out, p)
		}
	}
	return out
}

// rolls reports whether the deployment replaces the machines of this set: it has a newer
// template, and is not paused.
func (p *pool) rolls(all []*pool) bool {
	switch d := p.deployment.(type) {
	case *machinev1.MachineDeployment:
		return !d.Spec.Paused && current(all, p) != p
	case *clusterv1.MachineDeployment:
		onDelete := d.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
		return !ptr.Deref(d.Spec.Paused, false) && !onDelete && current(all, p) != p
	}
	return false
}
