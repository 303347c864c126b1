package integration

import (
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

func setFlaws() []flaw {
	wrong := func(name string, texts []string, change, repair func(*machinev1.MachineSet)) flaw {
		return flaw{
			name: name, condition: machinev1.ConditionSpecValid, status: metav1.ConditionFalse,
			reason: machinev1.ReasonInvalidSpec, event: machinev1.ReasonInvalidSpec, texts: texts,
			make: func(t *trial) client.Object {
				set := t.set(t.class("v1"), 1)
				change(set)
				t.Expect(t.Client.Create(t.Context(), set)).To(Succeed())
				return set
			},
			repair: func(t *trial, o client.Object) {
				set := o.(*machinev1.MachineSet)
				t.edit(set, func() { repair(set) })
			},
		}
	}
	selector := func(set *machinev1.MachineSet) {
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
	}
	return []flaw{
		wrong("SetNilSelector", []string{"spec.selector", "must be set"}, func(set *machinev1.MachineSet) {
			set.Spec.Selector = nil
		}, selector),
		wrong("SetEmptySelector", []string{"spec.selector", "must not be empty"},
			func(set *machinev1.MachineSet) { set.Spec.Selector = &metav1.LabelSelector{} }, selector),
		wrong("SetAnnotations", []string{
			machinev1.EffectiveCreationTimeoutAnnotation, machinev1.LastReplicaChangeByScalerAnnotation,
			machinev1.OrdinalsAnnotation, "correct or remove it",
		},
			func(set *machinev1.MachineSet) {
				set.Annotations = map[string]string{
					machinev1.EffectiveCreationTimeoutAnnotation:  "soon",
					machinev1.LastReplicaChangeByScalerAnnotation: "yesterday",
				}
				set.Annotations[machinev1.OrdinalsAnnotation] = "next=many"
				set.Spec.Replicas = 0
			},
			func(set *machinev1.MachineSet) { set.Annotations, set.Spec.Replicas = nil, 1 }),
	}
}

// unmade is a flaw of a class, for which its Machines have no VM.
func unmade(name, reason string, texts []string, change func(*machinev1.MachineClass, *corev1.Secret),
	repair func(*trial, *machinev1.MachineClass, *corev1.Secret),
) flaw {
	return flaw{
		name: name, condition: machinev1.ConditionVMReady, status: metav1.ConditionFalse, reason: reason,
		event: "CreateFailed", texts: texts,
		make: func(t *trial) client.Object {
			m := t.newMachine(t.class("v1", change), "m")
			t.Expect(t.Client.Create(t.Context(), m)).To(Succeed())
			return m
		},
		repair: func(t *trial, _ client.Object) {
			good, secret := t.Class(t.name+"-v1", "small")
			t.heard(good, reason, texts...) // the class is told about, too
			repair(t, good, secret)
		},
	}
}

// mendClass gives a class the spec that it should have had.
func mendClass(t *trial, good *machinev1.MachineClass, _ *corev1.Secret) {
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: good.Name, Namespace: good.Namespace}}
	t.edit(c, func() {
		c.Provider, c.ProviderSpec, c.NodeTemplate = good.Provider, good.ProviderSpec, good.NodeTemplate
	})
}

// mendSecret gives a Secret the entries that it should have had.
func mendSecret(t *trial, _ *machinev1.MachineClass, good *corev1.Secret) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: good.Name, Namespace: good.Namespace}}
	t.edit(s, func() { s.Data = good.Data })
}

func machineFlaws() []flaw {
	invalid := machinev1.ReasonInvalidSpec
	return []flaw{
		unmade("Provider", invalid, []string{"provider", "nimbus"},
			func(c *machinev1.MachineClass, _ *corev1.Secret) { c.Provider = "nimbus" }, mendClass),
		unmade("ProviderSpec", invalid, []string{"providerSpec"},
			func(c *machinev1.MachineClass, _ *corev1.Secret) {
				specOf(c, func(s map[string]any) { s["instanceType"] = []string{"small", "large"} })
			}, mendClass),
		unmade("NodeTemplate", invalid, []string{"nodeTemplate.zone"},
			func(c *machinev1.MachineClass, _ *corev1.Secret) { c.NodeTemplate.Zone = "" }, mendClass),
		unmade("UserData", machinev1.ReasonInvalidUserData, []string{machinev1.UserDataKey},
			func(_ *machinev1.MachineClass, s *corev1.Secret) { delete(s.Data, machinev1.UserDataKey) }, mendSecret),
		unmade("Credentials", machinev1.ReasonInvalidSecret, []string{"secretKey"},
			func(_ *machinev1.MachineClass, s *corev1.Secret) { delete(s.Data, "secretKey") }, mendSecret),
		unmade("Secret", machinev1.ReasonSecretNotFound, []string{"secretRef"},
			func(c *machinev1.MachineClass, s *corev1.Secret) { c.SecretRef.Name = s.Name + "-not" },
			func(t *trial, _ *machinev1.MachineClass, good *corev1.Secret) {
				good.Name += "-not"
				t.Expect(t.Client.Create(t.Context(), good)).To(Succeed())
			}),
		{
			name: "ClassMissing", condition: machinev1.ConditionVMReady, status: metav1.ConditionFalse,
			reason: machinev1.ReasonClassNotFound,
			event:  "CreateFailed", texts: []string{"spec.class.name", "create it or name another one"},
			make: func(t *trial) client.Object {
				m := t.newMachine(t.name+"-v1", "m")
				t.Expect(t.Client.Create(t.Context(), m)).To(Succeed())
				return m
			},
			repair: func(t *trial, _ client.Object) { t.class("v1") },
		},
		classDeleting(),
		machineAnnotations(),
	}
}

// classDeleting is a class that is being deleted, and stays because a Machine
// needs it.
func classDeleting() flaw {
	return flaw{
		name: "ClassDeleting", condition: machinev1.ConditionVMReady, status: metav1.ConditionFalse,
		reason: machinev1.ReasonClassDeleting,
		event:  "CreateFailed", texts: []string{"spec.class.name", "is being deleted", "name another one"},
		make: func(t *trial) client.Object {
			class := t.class("v1")
			t.machine(class, "user")
			c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: class, Namespace: stack.Namespace}}
			t.Expect(t.Client.Delete(t.Context(), c)).To(Succeed())
			t.heard(c, "DeletionWaits", t.name+"-user")
			m := t.newMachine(class, "m")
			t.Expect(t.Client.Create(t.Context(), m)).To(Succeed())
			return m
		},
		repair: func(t *trial, o client.Object) {
			m := o.(*machinev1.Machine)
			other := t.class("v2")
			t.edit(m, func() { m.Spec.Class.Name = other })
		},
	}
}

// machineAnnotations are what cannot be read on a Machine, and does not count.
func machineAnnotations() flaw {
	return flaw{
		name: "MachineAnnotations", condition: machinev1.ConditionSpecValid, status: metav1.ConditionTrue,
		reason: machinev1.ReasonIgnoredValue,
		event:  "IgnoredValue", texts: []string{
			machinev1.EffectiveCreationTimeoutAnnotation, machinev1.CreateAttemptAnnotation, machinev1.ForceDeletionLabel,
			machinev1.PreserveAnnotation,
			machinev1.PriorityAnnotation, machinev1.MarkedForDeletionAnnotation, "remove it",
		},
		make: func(t *trial) client.Object {
			m := t.newMachine(t.class("v1"), "m")
			m.Annotations = map[string]string{
				machinev1.EffectiveCreationTimeoutAnnotation: "soon", machinev1.CreateAttemptAnnotation: "first",
				machinev1.PreserveAnnotation: "maybe", machinev1.PriorityAnnotation: "high",
				machinev1.MarkedForDeletionAnnotation: "yesterday",
			}
			m.Labels[machinev1.ForceDeletionLabel] = "perhaps"
			t.Expect(t.Client.Create(t.Context(), m)).To(Succeed())
			t.phase(m, machinev1.MachineRunning) // it is not held up
			return m
		},
		repair: func(t *trial, o client.Object) {
			m := o.(*machinev1.Machine)
			t.edit(m, func() {
				for _, key := range []string{
					machinev1.EffectiveCreationTimeoutAnnotation, machinev1.CreateAttemptAnnotation, machinev1.PreserveAnnotation,
					machinev1.PriorityAnnotation, machinev1.MarkedForDeletionAnnotation,
				} {
					delete(m.Annotations, key)
				}
				delete(m.Labels, machinev1.ForceDeletionLabel)
			})
		},
	}
}

// nodeAnnotations: what was applied to a Node cannot be read. The machine says
// so, and the Node follows its template all the same.
func (t *trial) nodeAnnotations() {
	m := t.machine(t.class("v1"), "m")
	node := t.node(m)
	t.edit(node, func() {
		node.Annotations = with(node.Annotations, machinev1.LastAppliedNodeTemplateAnnotation, "{")
		node.Annotations = with(node.Annotations, machinev1.LastAppliedVirtualCapacityAnnotation, "[")
	})
	t.edit(m, func() { m.Spec.NodeTemplateSpec.Labels = map[string]string{"colour": "blue"} })
	t.until(node, "the node follows", func() error {
		if node.Labels["colour"] != "blue" || node.Annotations[machinev1.LastAppliedNodeTemplateAnnotation] == "{" {
			return fmt.Errorf("labels %v, annotations %v", node.Labels, node.Annotations)
		}
		return nil
	})
	t.heard(m, "InvalidAnnotation", machinev1.LastAppliedNodeTemplateAnnotation)
	t.heard(m, "InvalidAnnotation", machinev1.LastAppliedVirtualCapacityAnnotation)

	t.edit(node, func() { node.Annotations[machinev1.PreserveAnnotation] = "maybe" })
	t.says(m, machinev1.ConditionSpecValid, metav1.ConditionTrue, machinev1.ReasonIgnoredValue, "Node "+node.Name,
		machinev1.PreserveAnnotation, "remove it")
	t.heard(m, "IgnoredValue", "Node "+node.Name, machinev1.PreserveAnnotation)
	t.edit(node, func() { delete(node.Annotations, machinev1.PreserveAnnotation) })
	t.until(m, "nothing is wrong any more", func() error {
		if text := conditionsText(m); strings.Contains(text, machinev1.ConditionSpecValid) {
			return errors.New(text)
		}
		return nil
	})
}

// rolloutAnnotations: what a rollout keeps in a set was damaged.
func (t *trial) rolloutAnnotations() {
	v1, v2 := t.class("v1"), t.class("v2")
	d := t.deployment(v1, 1, "1", "0")
	t.settled(d)
	set := t.sets(d)[0]
	t.edit(&set, func() {
		for _, key := range []string{
			machinev1.RevisionAnnotation, machinev1.RevisionHistoryAnnotation, machinev1.DesiredReplicasAnnotation,
			machinev1.MaxReplicasAnnotation,
		} {
			set.Annotations[key] = "many"
		}
	})
	t.edit(d, func() { d.Spec.Replicas = 2 })
	t.settled(d)
	t.edit(d, func() { d.Spec.Template.Spec.Class.Name = v2 })
	t.settled(d)
	t.Expect(t.sets(d)).To(HaveLen(2))
}
