package mcmremediation

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// TestRebootHelps: the VM is rebooted once, and the object waits until it is deleted.
func TestRebootHelps(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	if wait := w.run(); wait != timeout {
		t.Errorf("looks again after %v, want %v", wait, timeout)
	}
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
	w.Settle(w.controller, key("m"))
	if n := len(w.HeardOf(infrav1.ReasonRebooted)); n != 1 {
		t.Errorf("%d Events", n)
	}
	is := conditions.Get(w.machine(), clusterv1.MachineExternallyRemediatedCondition)
	if is == nil || is.Reason != infrav1.ReasonRebooted {
		t.Errorf("the Machine shows %+v", is)
	}
	w.Advance(time.Minute)
	w.condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionTrue, "X")
	w.run()
	w.expect(infrav1.RemediationHealthy, infrav1.ReasonMachineHealthy, 1)
	w.Delete(w.object())
	w.run()
	if is := conditions.Get(w.machine(), clusterv1.MachineExternallyRemediatedCondition); is != nil {
		t.Errorf("the Machine still shows %+v", is)
	}
}

// TestRebootsAreUsedUp: each reboot has its time, then the owner of the Machine is asked, once.
func TestRebootsAreUsedUp(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for n := 1; n <= 2; n++ {
		w.run()
		w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, n)
		w.Advance(timeout - time.Second)
		w.run()
		w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, n)
		w.Advance(time.Second)
	}
	w.run()
	w.expect(infrav1.RemediationReplacing, infrav1.ReasonRetriesUsedUp, 2)
	w.Forget()
	w.Advance(time.Hour)
	w.run()
	if writes := w.Writes(); len(writes) > 0 {
		t.Errorf("writes although nothing has changed: %v", writes)
	}
}

// TestNoRebootHelps: where a reboot cannot help, the owner is asked at once.
func TestNoRebootHelps(t *testing.T) {
	t.Parallel()
	editMachine := func(edit func(*clusterv1.Machine)) func(*env) {
		return func(w *env) { harness.Edit(w.Cluster, machine("m"), edit) }
	}
	for name, tc := range map[string]struct {
		change func(*env)
		reason string
	}{
		"NoRetries": {func(w *env) {
			harness.Edit(w.Cluster, w.object(), func(o *infrav1.MCMRemediation) { o.Spec.Strategy.RetryLimit = new(int32) })
		}, infrav1.ReasonRetriesUsedUp},
		"NeverJoined": {
			editMachine(func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} }),
			infrav1.ReasonNeverJoined,
		},
		"NodeDeleted": {func(w *env) {
			w.condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse,
				clusterv1.MachineHealthCheckNodeDeletedReason)
		}, infrav1.ReasonNodeDeleted},
		"OtherProvider": {
			editMachine(func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Kind = "DockerMachine" }),
			infrav1.ReasonOtherInfra,
		},
		"VMGone": {func(w *env) {
			w.cloud.Terminate(w.vm, "Terminated")
			w.Advance(time.Hour)
			w.gone()
		}, infrav1.ReasonNotRebootable},
		"VMFailed": {func(w *env) { w.cloud.Fail(w.vm, "HardwareFailure", "") }, infrav1.ReasonNotRebootable},
		"VMOfAnother": {func(w *env) {
			harness.Edit(w.Cluster, infra(), func(m *infrav1.MCMMachine) {
				machinev1.SetAnnotation(m, machinev1.OwnerIDAnnotation, "another")
			})
			w.gone()
		}, infrav1.ReasonNotRebootable},
		"Cooldown": {func(w *env) {
			harness.Edit(w.Cluster, infra(), func(m *infrav1.MCMMachine) {
				machinev1.SetAnnotation(m, infrav1.LastRebootAnnotation,
					w.Clock.Now().Add(time.Minute-cooldown).UTC().Format(time.RFC3339))
			})
		}, infrav1.ReasonCooldown},
		"UpdateFailed": {func(w *env) {
			harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) {
				machinev1.SetAnnotation(m, clusterv1.UpdateInProgressAnnotation, "")
			})
			w.condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse,
				clusterv1.MachineHealthCheckUnhealthyMachineReason)
		}, infrav1.ReasonUpdateImpossible},
		"Refused": {func(w *env) {
			w.onReboot(func(func() error) error {
				return cloud.Errorf(cloud.Denied, "reboot", "Forbidden", "not allowed")
			})
		}, infrav1.ReasonNotRebootable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			tc.change(w)
			w.run()
			w.expect(infrav1.RemediationReplacing, tc.reason, 0)
			w.Settle(w.controller, key("m"))
		})
	}
}

func infra() *infrav1.MCMMachine {
	return fixture.MCMMachine("m", "c1", "small", fixture.In[*infrav1.MCMMachine](namespace))
}

// TestHeld: nothing is rebooted while somebody wants it left alone, or while it cannot help.
func TestHeld(t *testing.T) {
	t.Parallel()
	annotate := func(key string) func(*env) {
		return func(w *env) {
			harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) { machinev1.SetAnnotation(m, key, "") })
		}
	}
	for name, tc := range map[string]struct {
		change func(*env)
		reason string // empty: nothing but the pause is reported
	}{
		"MachinePaused": {annotate(clusterv1.PausedAnnotation), ""},
		"ClusterPaused": {func(w *env) {
			harness.Edit(w.Cluster, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		}, ""},
		"Skipped":  {annotate(clusterv1.MachineSkipRemediationAnnotation), infrav1.ReasonRemediationHeld},
		"Updating": {annotate(clusterv1.UpdateInProgressAnnotation), infrav1.ReasonRemediationHeld},
		"HoldVM": {func(w *env) {
			harness.Edit(w.Cluster, infra(), func(m *infrav1.MCMMachine) {
				machinev1.SetAnnotation(m, machinev1.HoldAnnotation, "")
			})
		}, infrav1.ReasonRemediationHeld},
		"Deleting": {func(w *env) {
			harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) { m.Finalizers = []string{"example.com/x"} })
			w.Delete(machine("m"))
		}, infrav1.ReasonMachineDeleting},
		"NotReachable": {func(w *env) {
			harness.Edit(w.Cluster, cluster(), func(c *clusterv1.Cluster) {
				conditions.Set(c, metav1.Condition{
					Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: metav1.ConditionFalse, Reason: "X",
				})
			})
		}, infrav1.ReasonNotReachable},
		"Outage": {func(w *env) { w.Create(machine("n")); w.sick("n") }, infrav1.ReasonOutage},
		"Unchecked": {func(w *env) {
			harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) {
				conditions.Delete(m, clusterv1.MachineHealthCheckSucceededCondition)
			})
		}, infrav1.ReasonWaitingForHealthCheck},
		"CloudAway": {func(w *env) {
			w.onReboot(func(func() error) error {
				return &cloud.Error{Code: cloud.Throttled, Op: "reboot", RetryAfter: time.Minute, Err: errors.New("slowly")}
			})
		}, machinev1.ReasonCloudThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			tc.change(w)
			w.run()
			if tc.reason != "" && tc.reason != infrav1.ReasonMachineDeleting {
				w.expect(infrav1.RemediationPending, tc.reason, 0)
			}
			if o := w.object(); w.boots() > 0 || handedOver(w.machine()) || o.Annotations[infrav1.RebootsAnnotation] != "" {
				t.Errorf("%d reboots, %+v", w.boots(), o)
			}
		})
	}
}

// TestOutageCanBeIgnored, as the native API's flag says.
func TestOutageCanBeIgnored(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.options.IgnoreOutages = true
	w.restart()
	w.Create(machine("n"))
	w.sick("n")
	w.run()
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
}

// TestOutageOfOthers: nodes that were lost together before hold no other machine.
func TestOutageOfOthers(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.Create(machine("n"), machine("o"))
	w.sick("n")
	w.sick("o")
	w.Advance(time.Hour)
	harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) {
		for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition} {
			conditions.Delete(m, kind)
		}
	})
	w.sick("m")
	w.run()
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
}

// TestKilledAtAnyWrite: a process that ends at any of its requests never lets the VM be rebooted
// more often than the limit, and the next one comes to the end.
func TestKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for at := range 12 {
		for _, after := range []bool{false, true} {
			w := newEnv(t)
			n := 0
			w.Fault = func(r harness.Request) error {
				if r.IsWrite() {
					if n++; n == at+1 {
						return killed
					}
				}
				return nil
			}
			if after { // the answer of the cloud is lost
				w.onReboot(func(next func() error) error {
					if n++; n == at+1 {
						return errors.Join(next(), cloud.Errorf(cloud.Unavailable, "reboot", "NoAnswer", "lost"))
					}
					return next()
				})
			}
			for range 40 {
				_, _ = w.Try(w.controller, key("m"))
				w.restart()
				w.Advance(time.Minute)
			}
			if w.boots() > 2 || !handedOver(w.machine()) {
				t.Errorf("write %d: %d reboots, %+v", at, w.boots(), w.object().Status)
			}
		}
	}
}

// TestKilledBetweenIntentAndCall: the reboot counts although it was never asked for.
func TestKilledBetweenIntentAndCall(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.onReboot(func(func() error) error { panic("killed") })
	func() {
		defer func() { _ = recover() }()
		_, _ = w.controller.Reconcile(w.Context(), requestFor("m"))
	}()
	w.calls = nil
	w.restart()
	w.run()
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 0)
	w.Advance(timeout)
	w.run()
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
	w.Advance(timeout)
	w.run()
	w.expect(infrav1.RemediationReplacing, infrav1.ReasonRetriesUsedUp, 1)
}

// TestLostAnswer: a reboot whose answer is lost counts, and is reported as uncertain.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.onReboot(func(next func() error) error {
		return errors.Join(next(), cloud.Errorf(cloud.Unavailable, "reboot", "NoAnswer", "lost"))
	})
	w.run()
	w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebootUncertain, 1)
}

// TestDeletedMeanwhile: a Machine whose deletion the cache does not show yet is not rebooted.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	stale := w.machine()
	harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) { m.Finalizers = []string{"example.com/x"} })
	w.Delete(machine("m"))
	o := w.object()
	p, err := w.controller.observe(w.Context(), o)
	w.Must(err)
	p.seen.machine = stale
	if _, err := w.controller.reboot(w.Context(), p); client.IgnoreNotFound(err) != nil || w.boots() > 0 {
		t.Errorf("%v, %d reboots", err, w.boots())
	}
	if n := w.object().Annotations[infrav1.RebootsAnnotation]; n != "" {
		t.Errorf("%s reboots are recorded", n)
	}
}

// TestCooldownBegins with the reboot, and outlives the object.
func TestCooldownBegins(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.run()
	w.Delete(w.object())
	w.Advance(cooldown - time.Minute)
	w.sick("m")
	w.remediate()
	w.restart()
	w.run()
	w.expect(infrav1.RemediationReplacing, infrav1.ReasonCooldown, 1)
	w.Advance(time.Hour)
	w.run()
	w.expect(infrav1.RemediationReplacing, infrav1.ReasonCooldown, 1)
}

// TestUnreadableRecord: a typo in the record reboots nothing.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()
	w := newEnv(t, func(o *infrav1.MCMRemediation) { machinev1.SetAnnotation(o, infrav1.RebootsAnnotation, "many") })
	w.Advance(timeout)
	w.run()
	w.expect(infrav1.RemediationReplacing, infrav1.ReasonRetriesUsedUp, 0)
}

// TestTakenBack: reboots that the cloud throttles, or refuses because the VM is busy, do not count.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		cloud.Errorf(cloud.Throttled, "reboot", "Slow", "slowly"),
		cloud.Errorf(cloud.Unavailable, "reboot", cloud.ReasonVMBusy, "another task is under way"),
	} {
		w := newEnv(t)
		w.onReboot(func(func() error) error { return err })
		for range 5 {
			if wait := w.run(); wait < transitionCheck {
				t.Errorf("%v: looks again after %v", err, wait)
			}
			w.expect(infrav1.RemediationPending, outcome.Reason(err), 0)
		}
		w.calls = nil
		w.restart()
		w.run()
		w.expect(infrav1.RemediationWaiting, infrav1.ReasonRebooted, 1)
		if n := w.object().Status.Reboots; n == nil || *n != 1 {
			t.Errorf("%v: %v reboots", err, n)
		}
	}
}
