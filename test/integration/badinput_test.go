package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var badInputTrials = append(flawTrials(),
	trialCase{"AllFlawsAtOnce", (*trial).allFlawsAtOnce},
	trialCase{"ShortestName", (*trial).shortestName},
	trialCase{"NegativeReplicas", (*trial).negativeReplicas},
	trialCase{"NodeAnnotations", (*trial).nodeAnnotations},
	trialCase{"RolloutAnnotations", (*trial).rolloutAnnotations},
	trialCase{"TriggerDeletionList", (*trial).triggerDeletionList},
	trialCase{"SharedNode", (*trial).sharedNode},
	trialCase{"PodWithoutPriority", (*trial).podWithoutPriority},
	trialCase{"InlineVolume", (*trial).inlineVolume},
)

// A flaw is something wrong with an object that the CRD admits.
type flaw struct {
	name string
	// make creates what is wrong and returns the object that has to say so.
	make func(*trial) client.Object
	// condition, status and reason are those that it has; event is the reason of
	// the Event; texts are in both.
	condition string
	status    metav1.ConditionStatus
	reason    string
	event     string
	texts     []string
	// repair corrects it, after which it proceeds.
	repair func(*trial, client.Object)
}

// flaws are all of them.
func flaws() []flaw {
	all := append(deploymentFlaws(), setFlaws()...)
	return append(all, machineFlaws()...)
}

func flawTrials() []trialCase {
	var cases []trialCase
	for _, f := range flaws() {
		cases = append(cases, trialCase{"Bad" + f.name, func(t *trial) {
			o := f.make(t)
			t.admits(f, o)
			t.proceeds(f, o)
		}})
	}
	return cases
}

// admits waits until the object says what is wrong with it.
func (t *trial) admits(f flaw, o client.Object) {
	t.Helper()
	t.says(o, f.condition, f.status, f.reason, f.texts...)
	t.heard(o, f.event, f.texts...)
}

// proceeds corrects the object and waits until it has what it asks for.
func (t *trial) proceeds(f flaw, o client.Object) {
	t.Helper()
	f.repair(t, o)
	switch o := o.(type) {
	case *machinev1.Machine:
		t.phase(o, machinev1.MachineRunning)
	case *machinev1.MachineSet:
		t.until(o, "the set is complete", func() error {
			if o.Status.AvailableReplicas != 1 || o.Status.Replicas != 1 {
				return fmt.Errorf("%d of %d are available", o.Status.AvailableReplicas, o.Status.Replicas)
			}
			return nil
		})
	case *machinev1.MachineDeployment:
		t.settled(o)
	}
	t.until(o, "nothing is wrong any more", func() error {
		for _, c := range progressOf(o) {
			if c.Type == machinev1.ConditionSpecValid || c.Type == f.condition && c.Status == metav1.ConditionFalse {
				return fmt.Errorf("it says %s", conditionsText(o))
			}
		}
		return nil
	})
}

// allFlawsAtOnce: beside all wrong objects a pool scales, and the manager lives.
func (t *trial) allFlawsAtOnce() {
	healthy := t.deployment(t.class("v1"), 1, "1", "0")
	t.settled(healthy)
	all := flaws()
	trials, objects := make([]*trial, len(all)), make([]client.Object, len(all))
	for i, f := range all {
		trials[i] = &trial{suite: t.suite, name: "all-" + strings.ToLower(f.name)}
		objects[i] = f.make(trials[i])
	}
	t.edit(healthy, func() { healthy.Spec.Replicas = 4 })
	t.settled(healthy)
	for i, f := range all {
		trials[i].admits(f, objects[i])
	}
	t.edit(healthy, func() { healthy.Spec.Replicas = 2 })
	t.settled(healthy)
	for _, o := range objects {
		t.Expect(t.Client.Delete(t.Context(), o)).To(Succeed())
	}
	for _, o := range objects {
		t.leaves(o)
	}
	t.sound()
}

// leaves waits until an object is gone. A Machine whose cloud cannot be reached
// with what its class says may have a VM; it waits, says so, and is released.
func (t *trial) leaves(o client.Object) {
	t.Helper()
	t.eventually(o.GetName()+" goes", func(ctx context.Context) error {
		err := t.absent(ctx, o)
		m, ok := o.(*machinev1.Machine)
		if err == nil || !ok {
			return err
		}
		c := meta.FindStatusCondition(progressOf(m), machinev1.ConditionDeleted)
		if c == nil || !strings.Contains(c.Message, machinev1.ReleaseAnnotation) {
			return fmt.Errorf("%w: %s", err, conditionsText(m))
		}
		return errors.Join(err, client.IgnoreNotFound(t.Edit(ctx, m, func() {
			m.Annotations = with(m.Annotations, machinev1.ReleaseAnnotation, "true")
		})))
	})
}

// negativeReplicas: the API server refuses them and names the field.
func (t *trial) negativeReplicas() {
	d := stack.Deployment(t.name, "none", -1, "1", "0")
	set := t.set("none", -1)
	for _, o := range []client.Object{d, set} {
		err := t.Client.Create(t.Context(), o)
		t.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		t.Expect(err).To(MatchError(ContainSubstring("spec.replicas")))
	}
}

// bent creates a deployment that a change has spoilt.
func bent(change func(*machinev1.MachineDeployment)) func(*trial) client.Object {
	return func(t *trial) client.Object { return t.deployment(t.class("v1"), 1, "1", "0", change) }
}

// unbent corrects a deployment.
func unbent(change func(good, d *machinev1.MachineDeployment)) func(*trial, client.Object) {
	return func(t *trial, o client.Object) {
		d := o.(*machinev1.MachineDeployment)
		good := stack.Deployment(d.Name, d.Spec.Template.Spec.Class.Name, 1, "1", "0")
		t.edit(d, func() { change(good, d) })
	}
}

func deploymentFlaws() []flaw {
	wrong := func(name, event string, texts []string, change func(*machinev1.MachineDeployment),
		repair func(good, d *machinev1.MachineDeployment),
	) flaw {
		return flaw{
			name, bent(change), machinev1.ConditionSpecValid, metav1.ConditionFalse, machinev1.ReasonInvalidSpec,
			event, texts, unbent(repair),
		}
	}
	selector := func(good, d *machinev1.MachineDeployment) { d.Spec.Selector = good.Spec.Selector }
	strategy := func(good, d *machinev1.MachineDeployment) { d.Spec.Strategy = good.Spec.Strategy }
	invalid := machinev1.ReasonInvalidSpec
	return []flaw{
		wrong("NilSelector", invalid, []string{"spec.selector", "select labels"},
			func(d *machinev1.MachineDeployment) { d.Spec.Selector = nil }, selector),
		wrong("EmptySelector", machinev1.EventSelectingAll, []string{"spec.selector", "select labels"},
			func(d *machinev1.MachineDeployment) { d.Spec.Selector = &metav1.LabelSelector{} }, selector),
		wrong("ForeignSelector", invalid, []string{"spec.selector", "spec.template.metadata.labels"},
			func(d *machinev1.MachineDeployment) {
				d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"other": "pool"}}
			}, selector),
		wrong("NoStrategy", invalid, []string{"spec.strategy.type", "RollingUpdate, Recreate or InPlaceUpdate"},
			func(d *machinev1.MachineDeployment) { d.Spec.Strategy = machinev1.MachineDeploymentStrategy{} }, strategy),
		wrong("NoRollingUpdate", invalid, []string{"spec.strategy.rollingUpdate", "maxSurge and maxUnavailable"},
			func(d *machinev1.MachineDeployment) { d.Spec.Strategy.RollingUpdate = nil }, strategy),
		wrong("NoInPlaceUpdate", invalid, []string{"spec.strategy.inPlaceUpdate", "orchestrationType"},
			func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy = machinev1.MachineDeploymentStrategy{Type: machinev1.InPlaceUpdateStrategyType}
			}, strategy),
		wrong("NoBounds", invalid, []string{"spec.strategy.rollingUpdate.max", "a number or a percentage"},
			func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{}
			}, strategy),
		wrong("NoClassName", invalid, []string{"spec.template.spec.class.name", "name a MachineClass"},
			func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = "" },
			func(_, d *machinev1.MachineDeployment) { d.Spec.Template.Spec.Class.Name = d.Name + "-v1" }),
		wrong("Annotations", invalid, []string{"ignored"},
			func(d *machinev1.MachineDeployment) {
				d.Annotations = map[string]string{
					machinev1.LastReplicaChangeByScalerAnnotation: "yesterday", machinev1.EffectiveCreationTimeoutAnnotation: "soon",
					machinev1.ProviderIDFormAnnotation: "short",
				}
				d.Spec.Template.Annotations = map[string]string{machinev1.PriorityAnnotation: "high"}
			},
			func(_, d *machinev1.MachineDeployment) { d.Annotations, d.Spec.Template.Annotations = nil, nil }),
	}
}
