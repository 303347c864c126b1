package machinedeployment

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// report writes the status if it differs, tells what is wrong with the spec, and
// notes when the progress deadline must be looked at.
func (p *pass) report(ctx context.Context) error {
	if !p.d.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(p.d, machinev1.Finalizer) {
		return nil // it is gone, or none of our business
	}
	status := p.status()
	p.complain(&status)
	if left, ok := rollout.Deadline(p.d, &status, p.now); ok && !p.invalid && !rollout.TimedOut(p.d, &status, p.now) {
		p.look(left + time.Second) // a second more, because times are stored in whole ones
	}
	if apiequality.Semantic.DeepEqual(p.d.Status, status) || p.onlyTells(status) {
		return nil
	}
	return p.writeStatus(ctx, status)
}

// writeStatus writes the status, unless the deployment has changed since it was
// read, and remembers what of it the API server drops. What a predecessor had on
// the way would undo a newer status for good: nothing wakes a deployment whose
// status alone was changed.
func (p *pass) writeStatus(ctx context.Context, status machinev1.MachineDeploymentStatus) error {
	changed := p.d.DeepCopy()
	changed.Status = status
	patch := client.MergeFromWithOptions(p.d, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Status().Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of machine deployment: %w", err)
	}
	p.written.Wrote(changed)
	if status.Progress != nil && changed.Status.Progress == nil {
		p.dropped.Keep(p.d.UID, status.Progress)
	} else {
		p.dropped.Forget(p.d.UID)
	}
	return nil
}

// onlyTells reports whether status differs from the stored one in nothing but
// progress, which this API server drops. Then it is remembered, not written.
func (p *pass) onlyTells(status machinev1.MachineDeploymentStatus) bool {
	if _, drops := p.dropped.Get(p.d.UID); !drops {
		return false
	}
	was, is := p.d.Status, status
	was.Progress, is.Progress = nil, nil
	if !apiequality.Semantic.DeepEqual(was, is) {
		return false
	}
	p.dropped.Keep(p.d.UID, status.Progress)
	return true
}

// look makes the next pass come after d at the latest.
func (p *pass) look(d time.Duration) {
	if p.wait == 0 || d < p.wait {
		p.wait = d
	}
}

// complain emits an Event for each problem that is new.
func (p *pass) complain(status *machinev1.MachineDeploymentStatus) {
	before := told(&p.d.Status)
	after := told(status)
	if after == nil || before != nil && before.Message == after.Message {
		return
	}
	for _, x := range p.problems {
		reason := machinev1.ReasonInvalidSpec
		if selectsAll(p.d) && strings.HasPrefix(x.text, "spec.selector") {
			reason = machinev1.EventSelectingAll
		}
		p.warn(reason, "%s", sentence(x.text))
	}
}

func told(s *machinev1.MachineDeploymentStatus) *metav1.Condition {
	if s.Progress == nil {
		return nil
	}
	return meta.FindStatusCondition(s.Progress.Conditions, machinev1.ConditionSpecValid)
}

// complete says that the rollout is, judged by what the sets report.
func (p *pass) complete() bool {
	status := p.counts()
	return rollout.Complete(p.d, &status)
}

// counts sums up what the sets report.
func (p *pass) counts() machinev1.MachineDeploymentStatus {
	s := machinev1.MachineDeploymentStatus{
		ObservedGeneration: p.d.Generation,
		CollisionCount:     p.d.Status.CollisionCount,
	}
	asked := int32(0)
	for _, o := range p.pools {
		seen := &o.seen.Status
		asked += o.seen.Spec.Replicas
		s.Replicas += seen.Replicas
		s.ReadyReplicas += seen.ReadyReplicas
		s.AvailableReplicas += seen.AvailableReplicas
		s.PreservedFailedReplicas += seen.PreservedFailedReplicas
		if seen.FailedMachines != nil {
			for i := range *seen.FailedMachines {
				s.FailedMachines = append(s.FailedMachines, (*seen.FailedMachines)[i].DeepCopy())
			}
		}
	}
	if p.current != nil {
		s.UpdatedReplicas = p.current.seen.Status.Replicas
	}
	s.UnavailableReplicas = max(asked-s.AvailableReplicas, 0)
	if p.collisions != nil {
		s.CollisionCount = p.collisions
	}
	return s
}

// status is what the deployment reports. It depends on nothing but the pass.
func (p *pass) status() machinev1.MachineDeploymentStatus {
	s := p.counts()
	s.Conditions = p.d.Status.Conditions
	if p.invalid && !selectsAll(p.d) {
		// What is asked for now was not acted upon.
		s.ObservedGeneration = p.d.Status.ObservedGeneration
	}
	if !p.invalid {
		p.judgeAvailable(&s)
		p.judgeFrozen(&s)
	}
	if !p.invalid && p.d.DeletionTimestamp.IsZero() {
		p.judgeProgress(&s)
		p.judgeFailure(&s)
	}
	s.Progress = p.progress(&s)
	return s
}

// progress are the conditions that say what the deployment waits for.
func (p *pass) progress(s *machinev1.MachineDeploymentStatus) *machinev1.Progress {
	var conditions []metav1.Condition
	if p.d.Status.Progress != nil {
		conditions = p.d.Status.Progress.DeepCopy().Conditions
	}
	meta.RemoveStatusCondition(&conditions, machinev1.ConditionSpecValid)
	if len(p.problems) > 0 {
		texts := make([]string, len(p.problems))
		for i, x := range p.problems {
			texts[i] = x.text
		}
		former := told(&p.d.Status)
		if former != nil {
			conditions = append(conditions, *former) // keeps its transition time
		}
		p.tell(&conditions, metav1.Condition{
			Type: machinev1.ConditionSpecValid, Status: metav1.ConditionFalse,
			Reason: machinev1.ReasonInvalidSpec, Message: sentence(strings.Join(texts, "; ")),
		})
	}
	if !p.invalid {
		p.tell(&conditions, p.readiness(s))
		p.tellForm(&conditions)
	}
	if len(conditions) == 0 {
		return nil
	}
	return &machinev1.Progress{Conditions: conditions}
}

func (p *pass) tell(conditions *[]metav1.Condition, c metav1.Condition) {
	c.ObservedGeneration = p.d.Generation
	c.LastTransitionTime = metav1.NewTime(p.now)
	if former := meta.FindStatusCondition(*conditions, c.Type); former != nil && former.Status == c.Status {
		c.LastTransitionTime = former.LastTransitionTime
	}
	meta.SetStatusCondition(conditions, c)
}

// readiness says what the replicas wait for.
func (p *pass) readiness(s *machinev1.MachineDeploymentStatus) metav1.Condition {
	c := metav1.Condition{Type: machinev1.ConditionReplicasReady, Status: metav1.ConditionFalse}
	c.Message = fmt.Sprintf("%d of %d machines are updated, %d available, %d old ones are left",
		s.UpdatedReplicas, p.d.Spec.Replicas, s.AvailableReplicas, s.Replicas-s.UpdatedReplicas)
	if p.d.Spec.Paused {
		c.Message += "; rollouts are paused, set spec.paused to false to go on"
	}
	switch names := p.frozenSets(); {
	case p.held != "":
		c.Reason, c.Message = machinev1.ReasonHeld, p.heldText()
	case !p.d.DeletionTimestamp.IsZero():
		c.Reason = machinev1.ReasonScalingDown
		c.Message = fmt.Sprintf("%d machine sets with %d machines are being deleted", len(p.pools), s.Replicas)
	case rollout.Complete(p.d, s):
		c.Status, c.Reason = metav1.ConditionTrue, machinev1.ReasonReplicasOK
	case len(names) > 0:
		c.Reason = machinev1.ReasonFrozen
		c.Message += "; no machines are made by " + strings.Join(names, ", ") + " while there are too many"
	case s.AvailableReplicas < p.d.Spec.Replicas || s.UpdatedReplicas < p.d.Spec.Replicas || p.awaited():
		c.Reason = p.missing()
		c.Message += firstFailure(s)
	default:
		c.Reason = machinev1.ReasonScalingDown
	}
	return c
}

// awaited says that the current set has machines which are not available yet.
func (p *pass) awaited() bool {
	return p.current != nil && p.current.seen.Status.AvailableReplicas < p.current.seen.Spec.Replicas
}

// firstFailure tells of one failed machine, as an example.
func firstFailure(s *machinev1.MachineDeploymentStatus) string {
	if len(s.FailedMachines) == 0 || s.FailedMachines[0].LastOperation.Description == "" {
		return ""
	}
	first := s.FailedMachines[0]
	const readable = 500
	text := first.LastOperation.Description
	if len(text) > readable {
		text = strings.ToValidUTF8(text[:readable], "") + "…"
	}
	return fmt.Sprintf("; %s: %s", first.Name, text)
}

// sentence starts a message with a capital, unless it starts with a field.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if text == "" || strings.Contains(first, ".") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
