package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

func preserveTainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == machinev1.PreservedTaint && t.Effect == corev1.TaintEffectNoSchedule
	})
}

// shownPreserved reports whether a node's condition Preserved has that status and reason.
func shownPreserved(n *corev1.Node, status corev1.ConditionStatus, reason string) bool {
	c := nodeCondition(n, machinev1.NodePreserved)
	return c != nil && c.Status == status && c.Reason == reason
}

func failedMachineIsKeptUntilExpiry(s *env) {
	s.class()
	s.pool(1, func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.MachineHealthTimeout = seconds(1)
		d.Spec.Template.Spec.MachinePreserveTimeout = seconds(30)
	})
	m := &s.running(1)[0]
	n := s.node(m)
	s.Expect(s.Edit(s.Context(), m, func() {
		m.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveWhenFailed
	})).To(Succeed())
	s.kubelet(m, map[string]any{"ready": false})
	s.sees(m, "the failed machine is preserved", func() bool {
		return m.Status.CurrentStatus.Phase == machinev1.MachineFailed && m.Status.CurrentStatus.PreserveExpiryTime != nil
	})
	expiry := m.Status.CurrentStatus.PreserveExpiryTime.Time
	s.nodeSees(n, "the node says so, takes no pods, and is left alone by the autoscaler", func() bool {
		c := nodeCondition(n, machinev1.NodePreserved)
		return preserveTainted(n) && shownPreserved(n, corev1.ConditionTrue, machinev1.ReasonPreservedByUser) &&
			strings.HasPrefix(c.Message, machinev1.MessagePreservedDrained) &&
			n.Annotations[machinev1.ScaleDownDisabledAnnotation] == "true" &&
			n.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation] == "true"
	})
	s.Expect(n.Spec.Unschedulable).To(BeFalse(), "whether it is cordoned is the user's business")
	s.eventually("the machine is kept until its time is over, and goes then", func(ctx context.Context) error {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(m), m)
		going := apierrors.IsNotFound(err) || err == nil && !m.DeletionTimestamp.IsZero()
		all, listErr := s.list(ctx)
		switch {
		case err != nil && !apierrors.IsNotFound(err) || listErr != nil:
			return errors.Join(err, listErr)
		case (going || len(all) != 1) && time.Now().Before(expiry.Add(-100*time.Millisecond)):
			return stack.Fatal(fmt.Errorf("it goes %s too soon, there are %d machines", time.Until(expiry), len(all)))
		case !apierrors.IsNotFound(err):
			return errors.New(describe(m))
		}
		return nil
	})
	s.Expect(s.running(1)[0].UID).NotTo(Equal(m.UID), "and is replaced then")
}

func nodeAnnotationPreserves(s *env) {
	s.class()
	s.pool(1, func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.MachineHealthTimeout = seconds(1)
		d.Spec.Template.Spec.MachinePreserveTimeout = seconds(3600)
	})
	m := &s.running(1)[0]
	n := s.node(m)
	s.Expect(s.Edit(s.Context(), n, func() {
		n.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveNow
	})).To(Succeed())
	s.sees(m, "the node's annotation preserves the machine", func() bool {
		return m.Status.CurrentStatus.PreserveExpiryTime != nil &&
			m.Annotations[machinev1.LastAppliedNodePreserveAnnotation] == machinev1.PreserveNow
	})
	left := time.Until(m.Status.CurrentStatus.PreserveExpiryTime.Time)
	s.Expect(left).To(BeNumerically("~", time.Hour, time.Minute))
	s.nodeSees(n, "a healthy node takes pods", func() bool {
		return shownPreserved(n, corev1.ConditionTrue, machinev1.ReasonPreservedByUser) && !preserveTainted(n) &&
			n.Annotations[machinev1.ScaleDownDisabledAnnotation] == "true"
	})
	// It fails and is kept all the same; then it recovers.
	s.kubelet(m, map[string]any{"ready": false})
	s.phase(m, machinev1.MachineFailed)
	s.nodeSees(n, "a failed node does not", func() bool {
		c := nodeCondition(n, machinev1.NodePreserved)
		return preserveTainted(n) && c != nil && strings.HasPrefix(c.Message, machinev1.MessagePreservedDrained)
	})
	s.holds(2*time.Second, "nobody replaces it", func(ctx context.Context) error {
		all, err := s.list(ctx)
		if err == nil && (len(all) != 1 || all[0].UID != m.UID || !all[0].DeletionTimestamp.IsZero()) {
			return fmt.Errorf("there are %d machines", len(all))
		}
		return err
	})
	s.kubelet(m, map[string]any{"ready": true})
	s.phase(m, machinev1.MachineRunning)
	s.nodeSees(n, "the recovered node takes pods again", func() bool { return !preserveTainted(n) })
	s.Expect(m.Status.CurrentStatus.PreserveExpiryTime).NotTo(BeNil())
	// The user has seen enough.
	s.Expect(s.Edit(s.Context(), n, func() {
		n.Annotations[machinev1.PreserveAnnotation] = machinev1.PreserveFalse
	})).To(Succeed())
	s.sees(m, "preservation stops", func() bool { return m.Status.CurrentStatus.PreserveExpiryTime == nil })
	s.nodeSees(n, "the node is everybody's again", func() bool {
		_, disabled := n.Annotations[machinev1.ScaleDownDisabledAnnotation]
		return shownPreserved(n, corev1.ConditionFalse, machinev1.ReasonPreservationStopped) && !disabled
	})
	s.Expect(s.running(1)[0].UID).To(Equal(m.UID))
}

// preservationNowExpires waits for what stays: a busy machine may look at nothing
// for as long as the preservation lasts.
func preservationNowExpires(s *env) {
	s.class()
	m := s.single("kept", func(m *machinev1.Machine) { m.Spec.MachinePreserveTimeout = seconds(6) })
	s.phase(m, machinev1.MachineRunning)
	n, asked := s.node(m), time.Now()
	s.Expect(s.Edit(s.Context(), m, func() {
		machinev1.SetAnnotation(m, machinev1.PreserveAnnotation, machinev1.PreserveNow)
	})).To(Succeed())
	s.nodeSees(n, "it was preserved, and its time is over", func() bool {
		return shownPreserved(n, corev1.ConditionFalse, machinev1.ReasonPreservationStopped)
	})
	s.Expect(time.Since(asked)).To(BeNumerically(">=", 5*time.Second))
	s.sees(m, "the request is gone, too", func() bool {
		_, requested := m.Annotations[machinev1.PreserveAnnotation]
		return m.Status.CurrentStatus.PreserveExpiryTime == nil && !requested
	})
	s.Expect(m.Status.CurrentStatus.Phase).To(Equal(machinev1.MachineRunning))
	s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
}
