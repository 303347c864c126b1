package machineset

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// report writes the status that follows from the pass, if it differs.
func (c *Controller) report(ctx context.Context, p *pass, acted error) error {
	if p.gone {
		return nil
	}
	if apierrors.IsConflict(p.failure) {
		// A stale cache is no failure of the set, and no success either.
		p.counted, p.failure = false, nil
	}
	status := statusOf(p)
	if !c.pruned.Load() {
		status.Progress = progressOf(p, acted)
	}
	status.LastOperation.LastUpdateTime = p.set.Status.LastOperation.LastUpdateTime
	if equality.Semantic.DeepEqual(p.set.Status, status) {
		return nil
	}
	status.LastOperation.LastUpdateTime = metav1.NewTime(p.now)
	changed := p.set.DeepCopy()
	changed.Status = status
	if err := c.Client.Status().Patch(ctx, changed, client.MergeFrom(p.set)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status of MachineSet: %w", err))
	}
	c.marks.Wrote(changed)
	// MCM's CRD drops our own field. Then it is left out, or every pass would find
	// it missing, write, and so bring about the next pass.
	c.pruned.Store(status.Progress != nil && changed.Status.Progress == nil || c.pruned.Load())
	return nil
}

// statusOf is the status in MCM's terms.
func statusOf(p *pass) machinev1.MachineSetStatus {
	status := machinev1.MachineSetStatus{
		ObservedGeneration: p.set.Generation,
		Conditions:         conditionsOf(p),
		FailedMachines:     failedMachines(p.machines),
	}
	template := labels.SelectorFromSet(p.set.Spec.Template.Labels)
	for _, m := range p.machines {
		add(&status.Replicas, true)
		add(&status.FullyLabeledReplicas, template.Matches(labels.Set(m.Labels)))
		phase := rollout.PhaseOf(m)
		add(&status.ReadyReplicas, phase == machinev1.MachineRunning)
		add(&status.AvailableReplicas, phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable)
		add(&status.PreservedFailedReplicas, preservedFailed(m))
		add(&status.AutoPreserveFailedMachineCount, m.Annotations[machinev1.PreserveAnnotation] == machinev1.PreserveAuto)
	}
	return status
}

func add(count *int32, one bool) {
	if one {
		*count++
	}
}

func preservedFailed(m *machinev1.Machine) bool {
	return rollout.PhaseOf(m) == machinev1.MachineFailed && m.Status.CurrentStatus.PreserveExpiryTime != nil
}

// failedMachines sums up the machines whose last operation failed, except for
// preserved ones; nil if there are none.
func failedMachines(machines []*machinev1.Machine) *[]machinev1.MachineSummary {
	var failed []machinev1.MachineSummary
	for _, m := range machines {
		if m.Status.LastOperation.State != machinev1.MachineStateFailed || preservedFailed(m) {
			continue
		}
		summary := machinev1.MachineSummary{
			Name: m.Name, ProviderID: m.Spec.ProviderID,
			LastOperation: m.Status.LastOperation,
		}
		if ref := metav1.GetControllerOf(m); ref != nil {
			summary.OwnerRef = ref.Name
		}
		failed = append(failed, summary)
	}
	if failed == nil {
		return nil
	}
	return &failed
}

// conditionsOf are the conditions in MCM's terms: each is there only while it is true.
func conditionsOf(p *pass) []machinev1.MachineSetCondition {
	conditions := slices.Clone(p.set.Status.Conditions)
	if p.counted || p.failure != nil {
		conditions = setCondition(conditions, machinev1.MachineSetReplicaFailure, p.failure != nil,
			machinev1.MachineSetCondition{
				Reason:  failureReason(p),
				Message: message(p.failure),
			}, p)
	}
	return setCondition(conditions, machinev1.MachineSetFrozen, freeze.IsFrozen(p.set), machinev1.MachineSetCondition{
		Reason:  machinev1.ReasonOverShooting,
		Message: p.limits.Message(p.set.Name, len(p.machines)),
	}, p)
}

// setCondition returns the conditions with one set or removed. One that is there
// keeps its message: what it said when it came about is what matters.
func setCondition(all []machinev1.MachineSetCondition, kind machinev1.MachineSetConditionType, holds bool,
	c machinev1.MachineSetCondition, p *pass,
) []machinev1.MachineSetCondition {
	has := func(c machinev1.MachineSetCondition) bool { return c.Type == kind }
	if !holds {
		return slices.DeleteFunc(all, has)
	}
	if slices.ContainsFunc(all, has) {
		return all
	}
	c.Type, c.Status, c.LastTransitionTime = kind, machinev1.ConditionTrue, metav1.NewTime(p.now)
	return append(all, c)
}

func failureReason(p *pass) string {
	switch count := len(p.machines); {
	case count < int(p.set.Spec.Replicas):
		return machinev1.ReasonFailedCreate
	case count > int(p.set.Spec.Replicas):
		return machinev1.ReasonFailedDelete
	}
	return ""
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return shorten(err.Error())
}
