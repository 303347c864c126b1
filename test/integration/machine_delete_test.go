package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func finalizersKeepWhatIsNeeded(s *env) {
	s.class()
	m := s.single("keeps")
	s.phase(m, machinev1.MachineRunning)
	node := s.node(m)
	class, secret := &machinev1.MachineClass{ObjectMeta: s.meta(s.name)}, &corev1.Secret{ObjectMeta: s.meta(s.name)}
	wanted := map[client.Object]string{
		m: machinev1.Finalizer, class: machinev1.Finalizer, secret: machinev1.SecretFinalizer, node: machinev1.NodeFinalizer,
	}
	there := func(ctx context.Context) error {
		for o, finalizer := range wanted {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if !slices.Contains(o.GetFinalizers(), finalizer) {
				return fmt.Errorf("%T has finalizers %v", o, o.GetFinalizers())
			}
		}
		return nil
	}
	s.eventually("everything has its finalizer", there)
	s.Expect(s.Client.Delete(s.Context(), class)).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), secret)).To(Succeed())
	s.Expect(s.told("DeletionWaits", s.name)).To(ContainSubstring("Machine"))
	s.holds(2*time.Second, "what a machine needs stays", there)
	s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), m)).To(Succeed())
	s.gone(m, node, class, secret)
	s.none()
}

// What a new VM would need is missing or wrong in every way; the old ones go
// all the same.
func badSpecDoesNotBlockDeletion(s *env) {
	s.class()
	first, second := s.single("bad-spec"), s.single("no-user-data")
	s.running(2)
	class := &machinev1.MachineClass{ObjectMeta: s.meta(s.name)}
	s.Expect(s.Edit(s.Context(), class, func() {
		s.specField(class, "instanceType", nil)
		s.specField(class, "image", nil)
		class.NodeTemplate = nil
	})).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), first)).To(Succeed())
	s.gone(first)
	secret := &corev1.Secret{ObjectMeta: s.meta(s.name)}
	s.Expect(s.Edit(s.Context(), secret, func() { delete(secret.Data, machinev1.UserDataKey) })).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), second)).To(Succeed())
	s.gone(second)
	s.none()
}

func missingClassWaitsVisibly(s *env) {
	s.class()
	released, restored := s.single("released"), s.single("restored")
	s.running(2)
	class := &machinev1.MachineClass{ObjectMeta: s.meta(s.name)}
	s.Expect(s.Client.Delete(s.Context(), class)).To(Succeed())
	s.Expect(s.Edit(s.Context(), class, func() { class.Finalizers = nil })).To(Succeed()) // somebody forces it
	s.gone(class)
	for _, m := range []*machinev1.Machine{released, restored} {
		s.Expect(s.Client.Delete(s.Context(), m)).To(Succeed())
		text := s.says(m, machinev1.ConditionDeleted, machinev1.ReasonClassNotFound)
		s.Expect(text).To(And(ContainSubstring(s.name), ContainSubstring(machinev1.ReleaseAnnotation)))
		s.Expect(m.Status.CurrentStatus.Phase).To(Equal(machinev1.MachineTerminating))
	}
	s.Expect(s.Edit(s.Context(), released, func() {
		released.Annotations[machinev1.ReleaseAnnotation] = "true"
	})).To(Succeed())
	s.gone(released)
	s.told("ReleasedWithoutVM", released.Name)
	s.Expect(s.alive(s.Context(), released.Name)).To(Succeed())
	s.Expect(s.alive(s.Context(), restored.Name)).To(Succeed())
	again, _ := s.Class(s.name, "small")
	s.Expect(s.Client.Create(s.Context(), again)).To(Succeed())
	began := time.Now()
	s.gone(restored)
	s.Expect(time.Since(began)).To(BeNumerically("<", 30*time.Second), "what is restored is used at once")
	s.none() // the VM that was left is an orphan now
}

func lostAnswersOfDeletionLoseNothing(s *env) {
	s.class()
	m := s.single("goes")
	s.phase(m, machinev1.MachineRunning)
	s.fault(sim.Fault{Op: sim.OpDeleteVM, Mode: sim.FaultDrop, Count: 1})
	s.fault(sim.Fault{Op: sim.OpDeleteVM, Mode: sim.FaultLost, Count: 1})
	s.Expect(s.Client.Delete(s.Context(), m)).To(Succeed())
	s.eventually("the machine goes, and not before its VM", func(ctx context.Context) error {
		if err := s.absent(ctx, m); err != nil {
			return err
		}
		vms, err := s.vms(ctx)
		if err == nil && (len(vms[m.Name]) != 1 || vms[m.Name][0].Deleting.IsZero()) {
			return errors.New("its VM is there")
		}
		return err
	})
	s.none()
}
