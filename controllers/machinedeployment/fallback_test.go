package machinedeployment

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// offer gives VMs to machines, as long as there are fewer than the cloud has room for.
func (env *env) offer(capacity int) {
	env.Helper()
	used := 0
	for _, m := range env.machines() {
		if m.Spec.ProviderID != "" {
			used++
		}
	}
	for _, m := range env.live() {
		if m.Spec.ProviderID != "" {
			continue
		}
		given := used < capacity || rollout.IsAvailable(&m)
		change(env, &m, func(m *machinev1.Machine) {
			m.Status.LastOperation = machinev1.LastOperation{}
			if given {
				m.Spec.ProviderID = "sim:///" + m.Name
				if !rollout.IsAvailable(m) {
					m.Status.CurrentStatus.Phase = ""
				}
				return
			}
			m.Status.CurrentStatus.Phase = machinev1.MachineCrashLoopBackOff
			m.Status.LastOperation = machinev1.LastOperation{
				Type: machinev1.MachineOperationCreate, State: machinev1.MachineStateFailed,
				ErrorCode: outcome.ResourceExhausted, Description: "Cloud provider message - no addresses",
			}
		})
		if given {
			used++
		}
	}
}

// roll rolls the pool out in a cloud of that capacity, for as many steps as a rollout
// needs. It returns how few machines were available, and whether the rollout ended.
func (env *env) roll(capacity int) (least int, done bool) {
	env.Helper()
	env.changeSpec(class("v2"))
	least = len(env.live())
	for range 60 {
		env.pass()
		available := 0
		for _, m := range env.live() {
			if rollout.IsAvailable(&m) {
				available++
			}
		}
		least = min(least, available)
		if d := env.deployment(); d.Status.UpdatedReplicas == d.Spec.Replicas &&
			d.Status.AvailableReplicas == d.Spec.Replicas && d.Status.Replicas == d.Spec.Replicas {
			return least, true
		}
		env.playSets()
		env.offer(capacity)
		env.playMachines()
	}
	return least, false
}

func TestSurgeFallback(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason             string
		value              string
		surge, unavailable int32
		capacity           int
		least              int
		done               bool
	}{
		"NotAsked":  {"A rollout without capacity waits, as in MCM.", "", 1, 0, 3, 3, false},
		"Asked":     {"One old machine goes first, and no second one.", "true", 1, 0, 3, 2, true},
		"MoreSurge": {"Also where several machines are refused.", "true", 3, 0, 3, 2, true},
		"SomeSurge": {"Where some are refused it is no more than one, either.", "true", 3, 0, 4, 2, true},
		"Allowed":   {"One more than may be unavailable anyway, and no further one.", "true", 1, 1, 2, 1, false},
		"Capacity":  {"With capacity nothing is unavailable.", "true", 1, 0, 4, 3, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(3, func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy = rollingUpdate(tc.surge, tc.unavailable)
				if tc.value != "" {
					machinev1.SetAnnotation(d, machinev1.SurgeFallbackAnnotation, tc.value)
				}
			}))
			env.run()
			env.offer(3)
			least, done := env.roll(tc.capacity)
			if least != tc.least || done != tc.done {
				t.Errorf("ended: %t, with at least %d available; want %t and %d: %s\n%s", done, least, tc.done, tc.least,
					tc.reason, env.describe())
			}
		})
	}
}

func TestSurgeFallbackIsReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value, reason, text string
		event               bool
	}{
		"Asked":    {"true", machinev1.ReasonSurgeFallback, "old machines are deleted first, one at a time", true},
		"NotAsked": {"", machinev1.ReasonScalingUp, `set annotation mcm.cluster.x-k8s.io/surge-fallback to "true"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(3, func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy = rollingUpdate(1, 0)
				if tc.value != "" {
					machinev1.SetAnnotation(d, machinev1.SurgeFallbackAnnotation, tc.value)
				}
			}))
			env.run()
			env.changeSpec(class("v2"))
			for range 5 {
				env.pass()
				env.playSets()
				env.offer(0)
			}
			env.pass()
			c := meta.FindStatusCondition(env.deployment().Status.Progress.Conditions, machinev1.ConditionReplicasReady)
			if c == nil || c.Reason != tc.reason || !strings.Contains(c.Message, tc.text) {
				t.Errorf("condition %+v, want reason %s and %q", c, tc.reason, tc.text)
			}
			if events := env.HeardOf(machinev1.ReasonSurgeFallback); (len(events) == 1) != tc.event {
				t.Errorf("Events %q, want one: %t", events, tc.event)
			}
		})
	}
}
