package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var crowdTrials = []trialCase{{"StuckDrainsDelayNothing", (*trial).stuckDrains}}

// crowd is how many drains are stuck: twice the workers that machines have.
const crowd = 100

// stuckDrains: a hundred machines that wait for a budget do not delay the
// creation of one.
func (t *trial) stuckDrains() {
	class := t.class("v1")
	d := t.deployment(class, crowd, "1", "0")
	machines := t.settled(d)
	alone := t.timed(class, "alone")
	for i := range machines {
		t.pod(fmt.Sprint(i), machines[i].Labels[machinev1.NodeLabel])
	}
	t.pod("nowhere", "")
	b := t.budget(crowd, crowd+1)
	t.edit(d, func() { d.Spec.Replicas = 0 })
	t.stuck(b)

	beside := t.timed(class, "beside")
	t.Logf("from creation to Running: %s alone, %s beside %d stuck drains", alone, beside, crowd)
	t.Expect(beside).To(BeNumerically("<", alone+10*time.Second),
		"an eviction is tried again after 20 s, so a creation that waits for one takes longer")
	t.stuck(b)

	// A restart would not end them either; a person does.
	for i := range machines {
		m := &machines[i]
		t.Expect(client.IgnoreNotFound(t.Edit(t.Context(), m, func() {
			m.Labels[machinev1.ForceDeletionLabel] = "true"
		}))).To(Succeed())
	}
	t.settled(d)
	t.edit(b, func() { b.Spec.MinAvailable = new(intstr.FromInt32(0)) })
}

// stuck waits until all machines of the crowd are, and still there.
func (t *trial) stuck(b *policyv1.PodDisruptionBudget) {
	t.Helper()
	t.eventually("all drains are stuck", func(ctx context.Context) error {
		machines, err := t.Machines(ctx, t.name)
		if err != nil {
			return err
		}
		waiting := 0
		for i := range machines {
			for _, c := range progressOf(&machines[i]) {
				if c.Type == machinev1.ConditionDrained && c.Reason == machinev1.ReasonEvictionDenied {
					waiting++
				}
			}
		}
		if len(machines) != crowd {
			return stack.Fatal(fmt.Errorf("%d machines are there, want %d: budget %s", len(machines), crowd, b.Name))
		}
		if waiting != crowd {
			return fmt.Errorf("%d of %d wait", waiting, crowd)
		}
		return nil
	})
}

// timed creates a Machine and returns how long it took to be Running.
func (t *trial) timed(class, suffix string) time.Duration {
	t.Helper()
	begun := time.Now()
	m := t.machine(class, suffix)
	took := time.Since(begun)
	t.Expect(m.Status.CurrentStatus.Phase).To(Equal(machinev1.MachineRunning))
	return took
}
