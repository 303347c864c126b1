package inplaceupdate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// How an update is, as core sees it.
type progress string

const (
	done       progress = "done"
	inProgress progress = "in progress"
	broken     progress = "failed"
)

func progressOf(r *runtimehooksv1.UpdateMachineResponse) progress {
	switch {
	case r.Status == runtimehooksv1.ResponseStatusFailure:
		return broken
	case r.RetryAfterSeconds > 0:
		return inProgress
	}
	return done
}

// expect calls and checks the answer.
func (w *env) expect(step string, want progress, message string) {
	w.Helper()
	r := w.call()
	if got := progressOf(r); got != want || !strings.Contains(r.Message, message) {
		w.Fatalf("%s: %s after %d s: %q; want %s with %q", step, got, r.RetryAfterSeconds, r.Message, want, message)
	}
	if again := w.call(); again.Status != r.Status || again.Message != r.Message {
		w.Fatalf("%s: asked again it says %q, not %q: each difference is a write of core's", step, again.Message, r.Message)
	}
}

// untouched: nothing of an update is on the Node.
func (w *env) untouched(step string) {
	w.Helper()
	n := w.node()
	for _, key := range []string{
		machinev1.CandidateForUpdateLabel, machinev1.SelectedForUpdateLabel,
		machinev1.UpdateResultLabel,
	} {
		if _, ok := n.Labels[key]; ok {
			w.Errorf("%s: the Node has label %s", step, key)
		}
	}
	for _, key := range []string{
		infrav1.UpdateTargetAnnotation, infrav1.CordonedForUpdateAnnotation,
		machinev1.UpdateFailedReasonAnnotation,
	} {
		if _, ok := n.Annotations[key]; ok {
			w.Errorf("%s: the Node has annotation %s", step, key)
		}
	}
	if n.Spec.Unschedulable {
		w.Errorf("%s: the Node is cordoned", step)
	}
}

func (w *env) reason() string {
	if c := shown(w.node()); c != nil {
		return c.Reason
	}
	return ""
}

func annotate(m *clusterv1.Machine, agent string) {
	m.Annotations[infrav1.NodeAgentUpdatesAnnotation] = agent
}

// TestNodeTemplate: what is on the Node alone is the controller's, and no pod
// leaves for it.
func TestNodeTemplate(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.pod("p", nil)
	w.want(func(_ *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
		i.Spec.NodeTemplate.Labels = map[string]string{"a": "b"}
	})
	w.expect("before the controller has seen it", inProgress, "Waiting for the controller of MCMMachine m")
	w.edit(func(n *corev1.Node) {
		n.Labels = map[string]string{"a": "b"}
		n.Annotations = map[string]string{
			machinev1.LastAppliedNodeTemplateAnnotation: `{"metadata":{"labels":{"a":"b"}},"spec":{}}`,
		}
	})
	w.expect("after it", done, "")
	w.untouched("at the end")
	if w.pods() != 1 {
		t.Error("a pod was evicted for a label")
	}
}

// TestNodeTemplateRefused: the controller's own words reach the Machine.
func TestNodeTemplateRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.want(func(_ *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
		i.Spec.NodeTemplate.Labels = map[string]string{"a": "b"}
	})
	harness.Edit(w.Cluster, w.live(), func(m *infrav1.MCMMachine) {
		m.Status.Conditions = []metav1.Condition{{
			Type: infrav1.NodeSyncedCondition, Status: metav1.ConditionFalse,
			Reason: infrav1.ReasonNodeRefused, Message: "the API server refuses label a",
		}}
	})
	w.expect("the API server refuses", inProgress, "the API server refuses label a")
}

// TestWhoIsAsked: the agent is asked for what differs from the node as it was
// made, or last updated, and only if there is one.
func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reason  string
		change  func(*clusterv1.Machine, *infrav1.MCMMachine, *bootstrapv1.MCMConfig)
		want    progress
		message string
	}{
		{"nothing differs", func(m *clusterv1.Machine, _ *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
			annotate(m, "version")
		}, done, ""},
		{"another class", func(m *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
			annotate(m, "providerSpec.image")
			i.Spec.MachineClassRef.Name = "c2"
		}, inProgress, "agent"},
		{"other boot data", func(m *clusterv1.Machine, _ *infrav1.MCMMachine, c *bootstrapv1.MCMConfig) {
			annotate(m, "bootstrap")
			c.Spec.UserDataSecretRef.Name = "d2"
		}, inProgress, "agent"},
		{"another class without an agent was promised by nobody", func(_ *clusterv1.Machine, i *infrav1.MCMMachine,
			_ *bootstrapv1.MCMConfig,
		) {
			i.Spec.MachineClassRef.Name = "c2"
		}, broken, "put the annotation (back)"},
		{
			"a version that was never right is none of our business",
			func(m *clusterv1.Machine, _ *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
				m.Spec.Version = "v1.0.0"
			}, done, "",
		},
		{
			"an adopted VM, of which nobody knows the class, is asked for nothing without an agent",
			func(_ *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
				i.Annotations = nil
			}, done, "",
		},
		{"and by the agent, if there is one", func(m *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
			annotate(m, "version")
			i.Annotations = nil
		}, inProgress, "agent"},
		{
			"what an agent has made counts more than what the VM was made from",
			func(m *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
				annotate(m, "version")
				i.Annotations[infrav1.UpdatedInPlaceToAnnotation] = "another"
			}, inProgress, "agent",
		},
	}
	for _, c := range cases {
		w := newEnv(t)
		w.want(c.change)
		r := w.call()
		if got := progressOf(r); got != c.want || !strings.Contains(r.Message, c.message) {
			t.Errorf("%s: %s %q, want %s with %q", c.reason, got, r.Message, c.want, c.message)
		}
		if c.want != inProgress {
			w.untouched(c.reason)
		}
	}
}

// TestOnlyWhatCoreAsksFor: whoever reaches the port can name a Machine; only
// those that core has marked are updated.
func TestOnlyWhatCoreAsksFor(t *testing.T) {
	t.Parallel()
	w := agentEnv(t)
	w.want(func(m *clusterv1.Machine, _ *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
		delete(m.Annotations, clusterv1.UpdateInProgressAnnotation)
	})
	w.expect("nobody updates it", done, "")
	w.untouched("nobody updates it")
	if w.pods() != 1 {
		t.Error("a pod was evicted for a stranger")
	}
}

// TestMachinesOfOthers: they are not ours to update.
func TestMachinesOfOthers(t *testing.T) {
	t.Parallel()
	w := agentEnv(t)
	w.want(func(m *clusterv1.Machine, _ *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
		m.Spec.InfrastructureRef.Kind = "DevMachine"
	})
	w.expect("a DevMachine", broken, "spec.namespaceSelector")
}

// TestWaits: what is missing is waited for, and says so.
func TestWaits(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reason  string
		change  func(*env)
		message string
	}{
		{"no connection", func(w *env) {
			w.clusters.Disconnect(client.ObjectKey{Namespace: "ns", Name: "c"})
		}, "no connection to the workload cluster"},
		{"the Node is gone", func(w *env) {
			w.workload.Delete(w.node())
		}, "Node n does not exist"},
		{"the name is another VM's", func(w *env) {
			w.edit(func(n *corev1.Node) { n.Spec.ProviderID = "sim:///2" })
		}, `belongs to VM "sim:///2"`},
	}
	for _, c := range cases {
		w := agentEnv(t)
		c.change(w)
		w.expect(c.reason, inProgress, c.message)
	}
}

// TestDrain: who leaves, who stays, and for how long that is waited for.
func TestDrain(t *testing.T) {
	t.Parallel()
	rule := &clusterv1.MachineDrainRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"},
		Spec: clusterv1.MachineDrainRuleSpec{
			Drain: clusterv1.MachineDrainRuleDrainConfig{
				Behavior: clusterv1.MachineDrainRuleDrainBehaviorDrain,
				Order:    new(int32(5)),
			},
			Pods: []clusterv1.MachineDrainRulePodSelector{{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "last"}},
			}},
		},
	}
	w := newEnv(t, rule)
	w.want(func(m *clusterv1.Machine, _ *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
		annotate(m, "version")
		m.Spec.Version = "v1.2.0"
		m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
	})
	labels := func(all map[string]string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels = all } }
	w.pod("daemon", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d",
			Controller: new(true),
		}}
	})
	w.pod("mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	w.pod("skipped", labels(map[string]string{clusterv1.PodDrainLabel: "skip"}))
	w.pod("completes", labels(map[string]string{clusterv1.PodDrainLabel: "wait-completed"}))
	w.pod("last", labels(map[string]string{"app": "last"}))
	w.pod("held", nil)
	w.refuse = func(*corev1.Pod) error { return apierrors.NewTooManyRequests("budget", 0) }
	w.expect("held by a budget", inProgress,
		"waiting for default/completes, which has to complete by itself; waiting for default/held, whose eviction a "+
			"PodDisruptionBudget refuses; waiting for default/last, whose turn comes later")
	w.refuse = nil
	w.call()
	if w.pods() != 5 {
		t.Fatalf("%d pods, want all but the one that was evicted", w.pods())
	}
	w.expect("the last one waits for its turn", inProgress, "default/last, whose turn comes later")
	w.Advance(61 * time.Second)
	w.expect("core would give up draining", inProgress, "Waiting for the agent")
	if w.pods() != 5 {
		t.Errorf("%d pods: one that is not waited for is left alone", w.pods())
	}
}
