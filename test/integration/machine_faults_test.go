package integration

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// soon is how long what happens at once takes at most on a busy machine. It is
// far below every wait that an event cuts short.
const soon = 30 * time.Second

func throttledMachineSaysSo(s *env) {
	s.fault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultThrottle, Count: 1, RetryAfter: sim.Duration(3 * time.Second)})
	s.class()
	m := s.single("throttled")
	s.says(m, machinev1.ConditionVMReady, machinev1.ReasonCloudThrottled)
	s.Expect(m.Status.CurrentStatus.Phase).To(Equal(machinev1.MachineCrashLoopBackOff))
	s.phase(m, machinev1.MachineRunning)
	s.Expect(s.alive(s.Context(), m.Name)).To(Succeed())
}

func unavailableCloudIsNamed(s *env) {
	s.fault(sim.Fault{
		Op: sim.OpCreateVM, Mode: sim.FaultBefore, Code: sim.CodeServiceUnavailable,
		Message: "come back later",
	})
	s.class()
	before := s.single("unavailable")
	s.Expect(s.says(before, machinev1.ConditionVMReady,
		machinev1.ReasonCloudUnavailable)).To(ContainSubstring("come back later"))
	s.Expect(before.Status.LastOperation.ErrorCode).To(Equal("Unavailable"))
	s.told("CreateFailed", before.Name, "come back later")
	s.repair()
	s.phase(before, machinev1.MachineRunning)
	// An error that is a lie: the VM exists all the same.
	s.fault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultAfter, Count: 1, Code: sim.CodeInternalError})
	after := s.single("lied-to")
	s.phase(after, machinev1.MachineRunning)
	s.collected()
	s.Expect(s.alive(s.Context(), before.Name)).To(Succeed())
	s.Expect(s.alive(s.Context(), after.Name)).To(Succeed())
}

func exhaustedCapacityIsToldAtOnce(s *env) {
	s.Expect(s.Cloud.SetCapacity(s.Context(), "gpu", 0)).To(Succeed())
	s.class(func(c *machinev1.MachineClass, _ *corev1.Secret) {
		s.specField(c, "instanceType", "gpu")
		c.NodeTemplate.InstanceType = "gpu"
	})
	began := time.Now()
	m := s.single("no-room")
	s.sees(m, "autoscalers are told that there is no capacity", func() bool {
		op := m.Status.LastOperation
		return op.ErrorCode == "ResourceExhausted" && op.Type == machinev1.MachineOperationCreate &&
			op.State == machinev1.MachineStateFailed
	})
	s.Expect(time.Since(began)).To(BeNumerically("<", 15*time.Second))
	s.Expect(m.Status.CurrentStatus.Phase).To(Equal(machinev1.MachineCrashLoopBackOff))
	s.Expect(s.says(m, machinev1.ConditionVMReady, machinev1.ReasonCapacityExhausted)).To(ContainSubstring("gpu"))
	// The user takes another zone.
	class := &machinev1.MachineClass{ObjectMeta: s.meta(s.name)}
	began = time.Now()
	s.Expect(s.Edit(s.Context(), class, func() { s.specField(class, "zone", "sim-1b") })).To(Succeed())
	s.phase(m, machinev1.MachineRunning)
	s.Expect(m.Status.LastOperation.ErrorCode).To(BeEmpty())
	s.Expect(time.Since(began)).To(BeNumerically("<", soon), "a corrected class is used at once")
}

// exhaustedClassFallsBack: machines get the next class of their pool, stay of it, and new ones
// are of the first class again once there is capacity.
func exhaustedClassFallsBack(s *env) {
	const other, scarce = "fallback-other", "arm"
	s.move()
	s.manage("--resource-exhausted-retry=2s")
	s.Expect(s.Cloud.SetCapacity(s.Context(), scarce, 0)).To(Succeed())
	s.class(func(c *machinev1.MachineClass, _ *corev1.Secret) {
		s.specField(c, "instanceType", scarce)
		c.NodeTemplate.InstanceType = scarce
	})
	s.classNamed(other)
	d := s.pool(2, func(d *machinev1.MachineDeployment) {
		d.Annotations = map[string]string{machinev1.FallbackClassesAnnotation: other}
	})
	for _, m := range s.running(2) {
		s.Expect(m.Spec.Class.Name).To(Equal(other))
		s.told(machinev1.EventClassFallback, m.Name, s.name, other)
	}
	class := &machinev1.MachineClass{ObjectMeta: s.meta(other)}
	s.Expect(s.Client.Get(s.Context(), client.ObjectKeyFromObject(class), class)).To(Succeed())
	s.Expect(class.Finalizers).To(ContainElement(machinev1.Finalizer), "the class is in use")

	s.Expect(s.Cloud.SetCapacity(s.Context(), scarce, 100)).To(Succeed())
	ofOther := func(want int) func(context.Context) error {
		return func(ctx context.Context) error {
			machines, err := s.list(ctx)
			n := 0
			for _, m := range machines {
				if m.Spec.Class.Name == other {
					n++
				}
			}
			if err == nil && n != want {
				err = fmt.Errorf("%d of %d machines are of class %s, want %d", n, len(machines), other, want)
			}
			return err
		}
	}
	s.holds(5*time.Second, "machines do not go back by themselves", ofOther(2))
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = 3 })).To(Succeed())
	s.running(3)
	s.Expect(ofOther(2)(s.Context())).To(Succeed(), "a new machine gets the first class again")
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = 1 })).To(Succeed())
	s.running(1)
	s.Expect(ofOther(0)(s.Context())).To(Succeed(), "machines of other classes go first")
}

// One machine is to go and one is to come while the account's key is revoked.
func revokedCredentialsAreNamed(s *env) {
	s.class()
	goes := s.single("goes-later")
	s.phase(goes, machinev1.MachineRunning)
	rotated := accounts()
	i := slices.IndexFunc(rotated, func(a sim.Tenant) bool { return a.ID == s.name })
	rotated[i].SecretKeys = []string{"a new key"}
	s.Expect(s.Cloud.SetAccounts(s.Context(), rotated...)).To(Succeed())

	comes := s.single("comes-later")
	s.Expect(s.Client.Delete(s.Context(), goes)).To(Succeed())
	s.says(comes, machinev1.ConditionVMReady, machinev1.ReasonCredentialsRefused)
	s.says(goes, machinev1.ConditionDeleted, machinev1.ReasonCredentialsRefused)
	s.Expect(comes.Status.LastOperation.ErrorCode).To(Equal("PermissionDenied"))
	s.Expect(comes.Status.LastOperation.Description).NotTo(ContainSubstring("key of "), "no secret is told")

	secret := &corev1.Secret{ObjectMeta: s.meta(s.name)}
	s.Expect(s.Edit(s.Context(), secret, func() { secret.Data["secretKey"] = []byte("a new key") })).To(Succeed())
	began := time.Now()
	s.phase(comes, machinev1.MachineRunning)
	s.gone(goes)
	s.Expect(time.Since(began)).To(BeNumerically("<", soon), "a corrected Secret is used at once")
}
