package migration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// copyToNewSide writes the new side as the old one is, at rest, looks whether all
// of it fits, and makes it the truth.
func (e *Engine) copyToNewSide(ctx context.Context, m *move, s *Scene) (string, error) {
	if s.deleting(m.To.Other()) {
		return "", e.enter(ctx, m, s, PhaseHolding) // a user has deleted one meanwhile, which comes first
	}
	copyAll := e.copyToClusterAPI
	if m.To == DoorNative {
		copyAll = e.copyToNative
	}
	if done, waiting, err := copyAll(ctx, m, s); err != nil || !done {
		return waiting, err
	}
	m.Generation = s.generation(m.To.Other())
	return "", e.enter(ctx, m, s, PhaseSwitching)
}

// deleting reports whether a machine of that door is being deleted.
func (s *Scene) deleting(d Door) bool {
	for _, tier := range s.tiers(d)[2:] {
		for _, o := range tier {
			if !o.GetDeletionTimestamp().IsZero() {
				return true
			}
		}
	}
	return false
}

// ensureCluster makes the Cluster of the pool if there is none, and says what it waits for.
func (e *Engine) ensureCluster(ctx context.Context, m *move, s *Scene) (string, error) {
	if s.Cluster.Cluster == nil {
		for _, o := range clusterObjects(m.Pool.Namespace, m.options()) {
			if err := client.IgnoreAlreadyExists(e.Control.Create(ctx, o)); err != nil {
				return "", fmt.Errorf("make %s: %w", title(o), err)
			}
		}
		return "Cluster " + m.Cluster + " is being made", nil
	}
	c := s.Cluster.Cluster
	switch {
	case !c.DeletionTimestamp.IsZero():
		return "", fmt.Errorf("Cluster %s is being deleted", c.Name) //nolint:staticcheck // a kind's name
	case ptr.Deref(c.Spec.Paused, false):
		return fmt.Sprintf("Cluster %s is paused (spec.paused): unpause it", c.Name), nil
	case !ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false):
		return fmt.Sprintf("the infrastructure of Cluster %s is not provisioned", c.Name), nil
	case !ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false):
		return fmt.Sprintf("the control plane of Cluster %s has not answered yet", c.Name), nil
	}
	return "", nil
}

// clusterObjects are a Cluster whose control plane is somebody else's, and what it names.
func clusterObjects(namespace string, o Options) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: o.Cluster}
	controlPlane := &controlplanev1.MCMExternalControlPlane{ObjectMeta: meta}
	if o.KubeconfigSecret != "" {
		controlPlane.Spec.KubeconfigSecretRef = &controlplanev1.NameReference{Name: o.KubeconfigSecret}
	} else {
		controlPlane.Spec.SelfHosted = ptr.To(true)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMCluster", Name: o.Cluster,
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "MCMExternalControlPlane", Name: o.Cluster,
	}
	return []client.Object{&infrav1.MCMCluster{ObjectMeta: meta}, controlPlane, cluster}
}

// copyToClusterAPI writes the copies of the Cluster API door, and lets its
// MCMMachines look for their VMs. They make and delete none.
func (e *Engine) copyToClusterAPI(ctx context.Context, m *move, s *Scene) (done bool, waiting string, err error) {
	if waiting, err = e.ensureCluster(ctx, m, s); err != nil || waiting != "" {
		return false, waiting, err
	}
	want, findings := s.CopyToClusterAPI(m.options())
	if err := refuse(m.Pool, findings); err != nil {
		return false, "", err
	}
	if done, waiting, err = e.clearStrays(ctx, s, &want); err != nil || !done {
		return false, waiting, err
	}
	for _, step := range []func(context.Context, *Scene, *ClusterAPI) (bool, error){
		e.writeTemplates, e.writeDeployment, e.writeSets, e.writeMachines,
	} {
		if wrote, err := step(ctx, s, &want); err != nil || wrote {
			return false, "", err
		}
	}
	missing, err := e.start(ctx, pointers(s.ClusterAPI.MCMMachines))
	if err != nil || len(missing) > 0 {
		return false, fmt.Sprintf("this provider's controllers have not looked for the VMs of %s yet; do they run?",
			some(missing)), err
	}
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; !provisioned(o) && !lost(o) {
			return false, fmt.Sprintf("%s has not found VM %s yet: %s", title(o), o.Spec.ProviderID, wordOf(o)), nil
		}
	}
	return true, "", nil
}

// refuse fails if something cannot be expressed on the other door.
func refuse(p Pool, findings []Finding) error {
	var blocked []Finding
	for _, f := range findings {
		if f.Level == Blocked {
			blocked = append(blocked, f)
		}
	}
	if len(blocked) > 0 {
		return &RefusedError{Pool: p, Findings: blocked}
	}
	return nil
}

// clearStrays removes copies of machines that are gone from the old side, or that
// were made for another VM.
func (e *Engine) clearStrays(ctx context.Context, s *Scene, want *ClusterAPI) (done bool, waiting string, err error) {
	providerIDs := map[string]string{}
	for i := range want.Machines {
		providerIDs[want.Machines[i].Name] = want.Machines[i].Spec.ProviderID
	}
	var strays []client.Object
	for i := range s.ClusterAPI.MCMMachines {
		o := &s.ClusterAPI.MCMMachines[i]
		if id, wanted := providerIDs[o.Name]; !wanted || id != o.Spec.ProviderID || !o.DeletionTimestamp.IsZero() {
			strays = append(strays, o)
		}
	}
	for i := range s.ClusterAPI.Machines {
		o := &s.ClusterAPI.Machines[i]
		if id, wanted := providerIDs[o.Name]; !wanted || id != o.Spec.ProviderID || !o.DeletionTimestamp.IsZero() {
			strays = append(strays, o)
		}
	}
	if len(strays) == 0 {
		return true, "", nil
	}
	if missing, err := e.rest(ctx, "", strays); err != nil || len(missing) > 0 {
		return false, resting(DoorClusterAPI, missing), err
	}
	return false, "", e.drop(ctx, strays)
}

func (e *Engine) writeTemplates(ctx context.Context, s *Scene, want *ClusterAPI) (wrote bool, err error) {
	owner := refTo(s.Cluster.Cluster, false)
	for i := range want.MachineTemplates {
		o := &want.MachineTemplates[i]
		if !contains(s.ClusterAPI.MachineTemplates, o.Name) {
			wrote, err = true, e.make(ctx, o, owner)
		}
		if err != nil {
			return wrote, err
		}
	}
	for i := range want.ConfigTemplates {
		o := &want.ConfigTemplates[i]
		if !contains(s.ClusterAPI.ConfigTemplates, o.Name) {
			wrote, err = true, e.make(ctx, o, owner)
		}
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

func (e *Engine) writeDeployment(ctx context.Context, s *Scene, want *ClusterAPI) (wrote bool, err error) {
	if want.Deployment == nil {
		return false, nil
	}
	if s.ClusterAPI.Deployment == nil {
		return true, e.make(ctx, want.Deployment, refTo(s.Cluster.Cluster, false))
	}
	have := s.ClusterAPI.Deployment
	if derived(want.Deployment.Spec, have.Spec) && ptr.Equal(want.Deployment.Spec.Replicas, have.Spec.Replicas) {
		return false, nil
	}
	changed := have.DeepCopy()
	changed.Spec = want.Deployment.Spec
	return true, e.patch(ctx, have, changed)
}

func (e *Engine) writeSets(ctx context.Context, s *Scene, want *ClusterAPI) (wrote bool, err error) {
	owner := refTo(s.Cluster.Cluster, false)
	if s.ClusterAPI.Deployment != nil {
		owner = refTo(s.ClusterAPI.Deployment, true)
	}
	for i := range want.Sets {
		o := &want.Sets[i]
		have := find(s.ClusterAPI.Sets, o.Name)
		switch {
		case have == nil:
			wrote, err = true, e.make(ctx, o, owner)
		case !derived(o.Spec, have.Spec), !ptr.Equal(o.Spec.Replicas, have.Spec.Replicas):
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

// writeMachines writes each Machine, and once that is there what it owns: a
// MCMMachine without its Machine would be cleaned up by Cluster API.
func (e *Engine) writeMachines(ctx context.Context, s *Scene, want *ClusterAPI) (wrote bool, err error) {
	for i := range want.Machines {
		o := &want.Machines[i]
		if find(s.ClusterAPI.Machines, o.Name) != nil {
			continue
		}
		owner := refTo(s.Cluster.Cluster, false)
		for _, ref := range o.OwnerReferences {
			if set := find(s.ClusterAPI.Sets, ref.Name); set != nil && ref.Kind == kindOf(set) {
				owner = refTo(set, true)
			}
		}
		if err := e.make(ctx, o, owner); err != nil {
			return true, err
		}
		wrote = true
	}
	if wrote {
		return true, nil
	}
	for i := range want.BootstrapSecrets {
		o := &want.BootstrapSecrets[i]
		if machine := e.ownerAmong(s, o); machine != nil && !contains(s.ClusterAPI.BootstrapSecrets, o.Name) {
			wrote, err = true, e.make(ctx, o, refTo(machine, true))
		}
		if err != nil {
			return wrote, err
		}
	}
	for i := range want.MCMMachines {
		o := &want.MCMMachines[i]
		have, machine := find(s.ClusterAPI.MCMMachines, o.Name), find(s.ClusterAPI.Machines, o.Name)
		switch {
		case have == nil && machine != nil:
			wrote, err = true, e.make(ctx, o, refTo(machine, true))
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
func (e *Engine) ownerAmong(s *Scene, secret *corev1.Secret) *clusterv1.Machine {
	for i := range s.ClusterAPI.Machines {
		if ptr.Deref(s.ClusterAPI.Machines[i].Spec.Bootstrap.DataSecretName, "") == secret.Name {
			return &s.ClusterAPI.Machines[i]
		}
	}
	return nil
}
