package integration

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var setTrials = []trialCase{
	{"Adoption", (*trial).adoption},
	{"DeleteSet", (*trial).deleteSet},
	{"DeleteDeployment", (*trial).deleteDeployment},
	{"OrphanDependents", (*trial).orphanDependents},
}

func namespaced(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: stack.Namespace, Name: name}
}

// keeper creates an object that owns others without controlling them.
func (t *trial) keeper() metav1.OwnerReference {
	t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: t.name, Namespace: stack.Namespace}}
	t.Expect(t.Client.Create(t.Context(), o)).To(Succeed())
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID}
}

// set makes a MachineSet of the trial, for Machines with the label name.
func (t *trial) set(class string, replicas int32) *machinev1.MachineSet {
	set := fixture.MachineSet(t.name, class, replicas)
	set.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"pool": t.name}
	return set
}

// adoption: a set adopts a Machine, a deployment the set; nothing is replaced,
// and who owned them before still does.
func (t *trial) adoption() {
	class, keeper := t.class("v1"), t.keeper()
	orphan := t.machine(class, "orphan", func(m *machinev1.Machine) {
		m.Labels[machinev1.NameLabel] = t.name
		m.OwnerReferences = []metav1.OwnerReference{keeper}
	})
	set := t.set(class, 2)
	set.OwnerReferences = []metav1.OwnerReference{keeper}
	t.Expect(t.Client.Create(t.Context(), set)).To(Succeed())
	adopted := func(o, by client.Object) {
		t.until(o, fmt.Sprintf("%s adopts %s", by.GetName(), o.GetName()), func() error {
			refs := o.GetOwnerReferences()
			if len(refs) != 2 || !metav1.IsControlledBy(o, by) || (refs[0].UID != keeper.UID && refs[1].UID != keeper.UID) {
				return fmt.Errorf("owners %v", refs)
			}
			return nil
		})
	}
	adopted(orphan, set)
	t.until(set, "the set makes one more", func() error {
		if set.Status.AvailableReplicas != 2 || set.Status.Replicas != 2 {
			return fmt.Errorf("%d of %d are available", set.Status.AvailableReplicas, set.Status.Replicas)
		}
		return nil
	})
	before, err := t.Machines(t.Context(), t.name)
	t.Expect(err).NotTo(HaveOccurred())

	d := t.deployment(class, 2, "1", "0")
	adopted(set, d)
	t.until(set, "the set selects by its hash", func() error {
		if set.Spec.Selector.MatchLabels[machinev1.TemplateHashLabel] == "" {
			return errors.New("it does not")
		}
		return nil
	})
	t.Expect(uids(t.settled(d))).To(Equal(uids(before)))
	t.Expect(t.sets(d)).To(HaveLen(1))
	t.edit(d, func() { d.Spec.Replicas = 3 })
	t.settled(d)
	adopted(orphan, set)
}

// deleteSet: a set takes its machines along, and its deployment makes another.
func (t *trial) deleteSet() {
	d := t.deployment(t.class("v1"), 2, "1", "0")
	before := t.settled(d)
	set := t.sets(d)[0]
	t.remove(&set)
	after := t.settled(d)
	for i := range after {
		t.Expect(uids(before)).NotTo(HaveKey(after[i].UID))
	}
	t.gone(before)
}

// gone waits until VMs and nodes of machines are gone.
func (t *trial) gone(machines []machinev1.Machine) {
	t.Helper()
	t.eventually("VMs and nodes go", func(ctx context.Context) error {
		vms, err := t.Cloud.VMs(ctx)
		if err != nil {
			return err
		}
		for i := range machines {
			if _, ok := vms[machines[i].Name]; ok {
				return fmt.Errorf("VM %s is there", machines[i].Name)
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machines[i].Labels[machinev1.NodeLabel]}}
			if err := t.absent(ctx, node); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteDeployment: everything that was made for it goes.
func (t *trial) deleteDeployment() {
	class := t.class("v1")
	d := t.deployment(class, 2, "1", "0")
	machines := t.settled(d)
	sets := t.sets(d)
	t.remove(d)
	for i := range sets {
		t.Expect(t.absent(t.Context(), &sets[i])).To(Succeed())
	}
	for i := range machines {
		t.Expect(t.absent(t.Context(), &machines[i])).To(Succeed())
	}
	t.gone(machines)
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: class, Namespace: stack.Namespace}}
	secret := &corev1.Secret{ObjectMeta: c.ObjectMeta}
	t.remove(c)
	t.remove(secret)
}

// orphanDependents: who deletes a deployment alone keeps its set and machines.
func (t *trial) orphanDependents() {
	class := t.class("v1")
	d := t.deployment(class, 1, "1", "0")
	machines := t.settled(d)
	set := t.sets(d)[0]
	t.remove(d, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	t.until(&set, "the set has no owner", func() error {
		if len(set.OwnerReferences) != 0 || !set.DeletionTimestamp.IsZero() {
			return fmt.Errorf("owners %v, deleted %v", set.OwnerReferences, set.DeletionTimestamp)
		}
		return nil
	})
	again := t.deployment(class, 1, "1", "0", func(d *machinev1.MachineDeployment) {
		d.Spec.RevisionHistoryLimit = ptr.To[int32](3)
	})
	t.Expect(uids(t.settled(again))).To(Equal(uids(machines)), "a deployment of the same template takes them over")
	t.Expect(t.sets(again)[0].UID).To(Equal(set.UID))
}
