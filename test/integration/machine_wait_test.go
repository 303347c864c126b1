package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// running waits until the env has so many machines, all of them Running with
// a ready node, and returns them by name.
func (s *env) running(want int) []machinev1.Machine {
	s.Helper()
	return s.runningOn(s.Client, want)
}

// runningOn is running with the nodes of another cluster.
func (s *env) runningOn(nodes client.Client, want int) []machinev1.Machine {
	s.Helper()
	var machines []machinev1.Machine
	s.eventually(fmt.Sprintf("%d machines are Running", want), func(ctx context.Context) error {
		var err error
		if machines, err = s.list(ctx); err != nil {
			return err
		}
		for i := range machines {
			if err := isRunning(ctx, nodes, &machines[i]); err != nil {
				return err
			}
		}
		if len(machines) != want {
			return fmt.Errorf("there are %d", len(machines))
		}
		return nil
	})
	return machines
}

func isRunning(ctx context.Context, nodes client.Client, m *machinev1.Machine) error {
	if m.Status.CurrentStatus.Phase != machinev1.MachineRunning || !m.DeletionTimestamp.IsZero() {
		return fmt.Errorf("machine %s is %s", m.Name, describe(m))
	}
	node := &corev1.Node{}
	if err := nodes.Get(ctx, client.ObjectKey{Name: m.Labels[machinev1.NodeLabel]}, node); err != nil {
		return err
	}
	if c := nodeCondition(node, corev1.NodeReady); c == nil || c.Status != corev1.ConditionTrue {
		return fmt.Errorf("node %s is not ready", node.Name)
	}
	return nil
}

// phase waits for a phase of a machine.
func (s *env) phase(m *machinev1.Machine, want machinev1.MachinePhase) {
	s.Helper()
	s.sees(m, "phase "+string(want), func() bool { return m.Status.CurrentStatus.Phase == want })
}

// sees waits until a machine, which is kept current, is as ok says.
func (s *env) sees(m *machinev1.Machine, what string, ok func() bool) {
	s.Helper()
	s.eventually(what, func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if !ok() {
			return fmt.Errorf("machine %s is %s", m.Name, describe(m))
		}
		return nil
	})
}

// says waits until a condition of a machine is False for a reason, and returns
// its message.
func (s *env) says(m *machinev1.Machine, kind, reason string) string {
	s.Helper()
	message := ""
	s.sees(m, fmt.Sprintf("condition %s for %s", kind, reason), func() bool {
		c := condition(m, kind)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return false
		}
		message = c.Message
		return true
	})
	return message
}

// holds checks that something stays as it is.
func (s *env) holds(within time.Duration, what string, check func(context.Context) error) {
	s.Helper()
	s.Consistently(func() error { return check(s.Context()) }).WithTimeout(within).Should(Succeed(), what)
}

// gone waits until objects do not exist any more.
func (s *env) gone(objects ...client.Object) {
	s.Helper()
	for _, o := range objects {
		s.eventually(o.GetName()+" goes", func(ctx context.Context) error { return s.absent(ctx, o) })
	}
}

// told waits for an Event about an object, and returns its text. With more words it
// waits for one whose text has them all: a reason can have several texts, e.g. when a
// cache shows a Machine before its class.
func (s *env) told(reason, object string, words ...string) string {
	s.Helper()
	text := ""
	s.eventually("Event "+reason+" about "+object, func(ctx context.Context) error {
		var list corev1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace(s.namespace),
			client.MatchingFields{"reason": reason, "involvedObject.name": object})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) }) {
				text = e.Message
				return nil
			}
		}
		return fmt.Errorf("there is none with %q among %d", words, len(list.Items))
	})
	return text
}

func condition(m *machinev1.Machine, kind string) *metav1.Condition {
	if m.Status.Progress == nil {
		return nil
	}
	return meta.FindStatusCondition(m.Status.Progress.Conditions, kind)
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// describe is what a person would look at.
func describe(m *machinev1.Machine) string {
	text := fmt.Sprintf("%q, deleted %v, last operation %q", m.Status.CurrentStatus.Phase, !m.DeletionTimestamp.IsZero(),
		m.Status.LastOperation.Description)
	if m.Status.Progress != nil {
		for _, c := range m.Status.Progress.Conditions {
			text += fmt.Sprintf(", %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return text
}
