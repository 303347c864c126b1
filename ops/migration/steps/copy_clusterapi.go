package steps

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	for _, tier := range s.Tiers(d)[2:] {
		for _, o := range tier {
			if !o.GetDeletionTimestamp().IsZero() {
				return true
			}
		}
	}
	return false
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
	if wrote, err := e.writeCopies(ctx, s, &want); err != nil || wrote {
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

// writeCopies writes what is missing of the first step that misses something.
func (e *Engine) writeCopies(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	for _, step := range []func(context.Context, *migration.PoolState, *migration.ClusterAPIObjects) (bool, error){
		e.writeTemplates, e.writeDeployment, e.writeSets, e.writeMachines,
	} {
		if wrote, err := step(ctx, s, want); err != nil || wrote {
			return wrote, err
		}
	}
	return false, nil
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
	var blocked []migration.Finding
	for _, f := range findings {
		if f.Level == migration.Blocked {
			blocked = append(blocked, f)
		}
	}
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
	isStale := func(o client.Object, providerID string) bool {
		id, wanted := providerIDs[o.GetName()]
		return !wanted || id != providerID || !o.GetDeletionTimestamp().IsZero()
	}
	var stale []client.Object
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; isStale(o, o.Spec.ProviderID) {
			stale = append(stale, o)
		}
	}
	for i := range s.ClusterAPI.Machines {
		if o := &s.ClusterAPI.Machines[i]; isStale(o, o.Spec.ProviderID) {
			stale = append(stale, o)
		}
	}
	return stale
}

func (e *Engine) writeTemplates(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	owner := refTo(s.Cluster.Cluster, false)
	for i := range want.MachineTemplates {
		o := &want.MachineTemplates[i]
		if !objects.Contains(s.ClusterAPI.MachineTemplates, o.Name) {
			wrote, err = true, e.create(ctx, o, owner)
		}
		if err != nil {
			return wrote, err
		}
	}
	for i := range want.ConfigTemplates {
		o := &want.ConfigTemplates[i]
		if !objects.Contains(s.ClusterAPI.ConfigTemplates, o.Name) {
			wrote, err = true, e.create(ctx, o, owner)
		}
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

func (e *Engine) writeDeployment(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	if want.Deployment == nil {
		return false, nil
	}
	if s.ClusterAPI.Deployment == nil {
		return true, e.create(ctx, want.Deployment, refTo(s.Cluster.Cluster, false))
	}
	have := s.ClusterAPI.Deployment
	if matches(want.Deployment.Spec, have.Spec) && ptr.Equal(want.Deployment.Spec.Replicas, have.Spec.Replicas) {
		return false, nil
	}
	changed := have.DeepCopy()
	changed.Spec = want.Deployment.Spec
	return true, e.patch(ctx, have, changed)
}

func (e *Engine) writeSets(ctx context.Context, s *migration.PoolState, want *migration.ClusterAPIObjects) (wrote bool,
	err error,
) {
	owner := refTo(s.Cluster.Cluster, false)
	if s.ClusterAPI.Deployment != nil {
		owner = refTo(s.ClusterAPI.Deployment, true)
	}
	for i := range want.Sets {
		o := &want.Sets[i]
		have := objects.Find(s.ClusterAPI.Sets, o.Name)
		switch {
		case have == nil:
			wrote, err = true, e.create(ctx, o, owner)
		case !matches(o.Spec, have.Spec), !ptr.Equal(o.Spec.Replicas, have.Spec.Replicas):
			changed := have.DeepCopy()
			changed.Spec = o.Spec
			wrote, err = true, e.patch(ctx, have, changed)
		}
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// writeMachines writes each Machine, and once that is there what it owns: an
// MCMMachine without its Machine would be cleaned up by Cluster API.
func (e *Engine) writeMachines(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	if wrote, err := e.writeOwners(ctx, s, want); err != nil || wrote {
		return wrote, err
	}
	secrets, err := e.writeBootData(ctx, s, want)
	if err != nil {
		return secrets, err
	}
	machines, err := e.writeMCMMachines(ctx, s, want)
	return secrets || machines, err
}

// writeOwners writes the Machines.
func (e *Engine) writeOwners(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	for i := range want.Machines {
		o := &want.Machines[i]
		if objects.Find(s.ClusterAPI.Machines, o.Name) != nil {
			continue
		}
		owner := refTo(s.Cluster.Cluster, false)
		for _, ref := range o.OwnerReferences {
			if set := objects.Find(s.ClusterAPI.Sets, ref.Name); set != nil && ref.Kind == objects.KindOf(set) {
				owner = refTo(set, true)
			}
		}
		if err := e.create(ctx, o, owner); err != nil {
			return true, err
		}
		wrote = true
	}
	return wrote, nil
}

// writeBootData writes the Secrets that Machines name as their boot data.
func (e *Engine) writeBootData(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	for i := range want.BootstrapSecrets {
		o := &want.BootstrapSecrets[i]
		if machine := e.ownerAmong(s, o); machine != nil && !objects.Contains(s.ClusterAPI.BootstrapSecrets, o.Name) {
			wrote, err = true, e.create(ctx, o, refTo(machine, true))
		}
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

func (e *Engine) writeMCMMachines(ctx context.Context, s *migration.PoolState,
	want *migration.ClusterAPIObjects,
) (wrote bool, err error) {
	for i := range want.MCMMachines {
		o := &want.MCMMachines[i]
		have, machine := objects.Find(s.ClusterAPI.MCMMachines, o.Name), objects.Find(s.ClusterAPI.Machines, o.Name)
		switch {
		case have == nil && machine != nil:
			wrote, err = true, e.create(ctx, o, refTo(machine, true))
		case have != nil && !equality.Semantic.DeepEqual(o.Spec.NodeTemplate, have.Spec.NodeTemplate):
			changed := have.DeepCopy()
			changed.Spec.NodeTemplate = o.Spec.NodeTemplate
			wrote, err = true, e.patch(ctx, have, changed)
		}
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// ownerAmong is the Machine whose boot data a Secret stands for; nil if there is none.
func (e *Engine) ownerAmong(s *migration.PoolState, secret *corev1.Secret) *clusterv1.Machine {
	for i := range s.ClusterAPI.Machines {
		if ptr.Deref(s.ClusterAPI.Machines[i].Spec.Bootstrap.DataSecretName, "") == secret.Name {
			return &s.ClusterAPI.Machines[i]
		}
	}
	return nil
}
