package steps

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
)

// create creates the objects of the VMs that are recovered. The machines are held.
func (r *run) create(ctx context.Context, p *recovery.Plan) (waiting string, wrote bool, err error) {
	if p.Count(recovery.Recover) == 0 {
		return "", false, nil
	}
	if wrote, err := r.dropApprovals(ctx, p); wrote || err != nil {
		return "", wrote, err
	}
	for i := range p.VMs {
		v := &p.VMs[i]
		if v.Verdict != recovery.Recover {
			continue
		}
		if err := r.createMachine(ctx, v); err != nil {
			return "", wrote, err
		}
		r.created++
		r.Progress(fmt.Sprintf("Machine %s created for VM %s", v.Machine, v.ID))
		wrote = true
	}
	return "", wrote, nil
}

// dropApprovals takes back that VMs that are recovered may be removed.
func (r *run) dropApprovals(ctx context.Context, p *recovery.Plan) (wrote bool, err error) {
	adopted := map[string]bool{}
	for i := range p.VMs {
		adopted[p.VMs[i].ID] = p.VMs[i].Verdict == recovery.Recover
	}
	classes := &machinev1.MachineClassList{}
	if err := r.Control.List(ctx, classes, client.InNamespace(r.namespace)); err != nil {
		return false, fmt.Errorf("list MachineClasses: %w", err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		all := machinev1.OrphanIDs(class.Annotations[machinev1.ApprovedOrphansAnnotation])
		left := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return adopted[id] })
		if len(left) == len(all) {
			continue
		}
		changed := class.DeepCopy()
		machinev1.SetOrRemoveAnnotation(changed, machinev1.ApprovedOrphansAnnotation, strings.Join(left, ","))
		if err := r.patch(ctx, class, changed); err != nil {
			return wrote, err
		}
		wrote = true
	}
	return wrote, nil
}

// createMachine creates a machine and what it owns.
func (r *run) createMachine(ctx context.Context, v *recovery.VMPlan) error {
	machine := v.Objects[0]
	machinev1.SetAnnotation(machine, recovery.HoldKey(machine), recovery.HoldPrefix+r.name)
	if err := r.ensure(ctx, machine); err != nil {
		return err
	}
	for _, o := range v.Objects[1:] {
		refs := o.GetOwnerReferences()
		refs[0].UID = machine.GetUID()
		o.SetOwnerReferences(refs)
		if err := r.ensure(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// ensure creates o, and writes its status where it has one. An object of that name that an
// interrupted run has created is the same one; it is read into o.
func (r *run) ensure(ctx context.Context, o client.Object) error {
	want := o.DeepCopyObject().(client.Object)
	err := r.Control.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		return r.readCreated(ctx, o, want)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", objects.Title(o), err)
	}
	m, native := o.(*machinev1.Machine)
	if !native || want.(*machinev1.Machine).Status.CurrentStatus.Phase == "" {
		return nil
	}
	before := m.DeepCopy()
	m.Status = want.(*machinev1.Machine).Status
	if err := r.Control.Status().Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write status of %s: %w", objects.Title(o), err)
	}
	return nil
}

// readCreated reads an object that exists into o, and fails unless a recovery has created it.
func (r *run) readCreated(ctx context.Context, o, want client.Object) error {
	if err := r.Control.Get(ctx, client.ObjectKeyFromObject(want), o); err != nil {
		return fmt.Errorf("read %s: %w", objects.Title(want), err)
	}
	ours := sameOwner(o, want)
	if isMachine(o) {
		ours = recovery.Held(o)
	}
	if !ours || objects.ProviderID(o) != objects.ProviderID(want) {
		return fmt.Errorf("create %s: another object has that name; the same command plans again", objects.Title(o))
	}
	return nil
}

// sameOwner reports whether two objects are controlled by the same one.
func sameOwner(a, b client.Object) bool {
	x, y := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return x != nil && y != nil && x.UID == y.UID
}

// resize writes the sizes of sets and deployments and the used ordinals. All are held.
// Sets go first: the size of a deployment follows from theirs.
func (r *run) resize(ctx context.Context, p *recovery.Plan) (waiting string, wrote bool, err error) {
	for i := range p.Pools {
		pool := &p.Pools[i]
		for _, set := range pool.Sets {
			changed := set.DeepCopyObject().(client.Object)
			if set.GetName() == pool.Set {
				r.resizeSet(changed, pool)
			}
			scaled(changed, pool.DeploymentReplicas)
			if err := r.patch(ctx, set, changed); err != nil {
				return "", wrote, err
			}
		}
		if err := r.resizeHead(ctx, pool); err != nil {
			return "", wrote, err
		}
		wrote = wrote || pool.Replicas != nil || pool.Ordinals != nil || pool.DeploymentReplicas != nil
		if wrote {
			return "", true, nil // other pools of the deployment are planned again
		}
	}
	return "", wrote, nil
}

func (r *run) resizeSet(set client.Object, pool *recovery.PoolPlan) {
	if c := pool.Replicas; c != nil {
		objects.SetReplicas(set, int32(c.To)) // #nosec G115 -- the sum of sizes that are int32
		r.Progress(fmt.Sprintf("%s scaled from %d to %d", objects.Title(set), c.From, c.To))
	}
	if c := pool.Ordinals; c != nil {
		machinev1.SetAnnotation(set, machinev1.OrdinalsAnnotation, naming.Ordinals{Next: c.To, Open: c.To}.String())
		r.Progress(fmt.Sprintf("%s gives up %d names that may be in use", objects.Title(set), c.To-c.From))
	}
}

// resizeHead writes the size of the deployment, and where a topology has it, there.
func (r *run) resizeHead(ctx context.Context, pool *recovery.PoolPlan) error {
	c := pool.DeploymentReplicas
	if c == nil {
		return nil
	}
	if d, ok := pool.Head.(*clusterv1.MachineDeployment); ok {
		if err := r.resizeTopology(ctx, d, c); err != nil {
			return err
		}
	}
	changed := pool.Head.DeepCopyObject().(client.Object)
	objects.SetReplicas(changed, int32(c.To)) // #nosec G115 -- the sum of sizes that are int32
	r.Progress(fmt.Sprintf("%s scaled from %d to %d", objects.Title(pool.Head), c.From, c.To))
	return r.patch(ctx, pool.Head, changed)
}

// resizeTopology writes the size into the topology of the Cluster, if it comes from there.
func (r *run) resizeTopology(ctx context.Context, d *clusterv1.MachineDeployment, c *recovery.Change) error {
	name, owned := d.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
	if !owned {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Control.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.ClusterName}, cluster); err != nil {
		return fmt.Errorf("read Cluster %s: %w", d.Spec.ClusterName, err)
	}
	changed := cluster.DeepCopy()
	all := changed.Spec.Topology.Workers.MachineDeployments
	for i := range all {
		if all[i].Name == name && all[i].Replicas != nil {
			all[i].Replicas = new(int32(c.To)) // #nosec G115 -- the sum of sizes that are int32
		}
	}
	return r.patch(ctx, cluster, changed)
}

// scaled notes in a set that it was scaled to the new size of its deployment: else the
// deployment would distribute the machines again.
func scaled(set client.Object, c *recovery.Change) {
	if c == nil {
		return
	}
	desired, most := machinev1.DesiredReplicasAnnotation, machinev1.MaxReplicasAnnotation
	if !objects.IsNative(set) {
		desired, most = clusterv1.DesiredReplicasAnnotation, clusterv1.MaxReplicasAnnotation
	}
	from, err := strconv.ParseInt(set.GetAnnotations()[desired], 10, 32)
	if err != nil || from < c.From || from > c.To {
		return // another change of the size is under way; a run that was killed has left a size between
	}
	machinev1.SetAnnotation(set, desired, strconv.FormatInt(c.To, 10))
	if n, err := strconv.ParseInt(set.GetAnnotations()[most], 10, 32); err == nil {
		machinev1.SetAnnotation(set, most, strconv.FormatInt(n+c.To-from, 10))
	}
}
