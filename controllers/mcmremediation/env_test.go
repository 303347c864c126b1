package mcmremediation

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const (
	namespace = "ns"
	timeout   = 5 * time.Minute
	cooldown  = time.Hour
)

// env is a management cluster with one unhealthy Machine m, whose VM runs, and the controller.
type env struct {
	*harness.Env
	cloud      *sim.Cloud
	vm         string // its id
	controller *Controller
	options    Options
	calls      func(next cloud.Account) cloud.Account // stands for the account; nil: it does
}

// account is an account whose Reboot a test plays.
type account struct {
	cloud.Account
	reboot func(next func() error) error
}

// looked is an account on which something happens when the VM is looked for.
type looked struct {
	cloud.Account
	meanwhile func()
}

func (a looked) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	a.meanwhile()
	return a.Account.Get(ctx, r)
}

func (a looked) Reboot(ctx context.Context, r cloud.Ref) error {
	return cloud.Reboot(ctx, a.Account, r)
}

func (a account) Reboot(ctx context.Context, r cloud.Ref) error {
	return a.reboot(func() error { return cloud.Reboot(ctx, a.Account, r) })
}

func newEnv(t *testing.T, edit ...func(*infrav1.MCMRemediation)) *env {
	t.Helper()
	h := harness.New(t, harness.With(cluster(), smallClass(), secret()))
	w := &env{Env: h, cloud: h.NewCloud()}
	vm, err := w.cloud.CreateVM(sim.Login{Account: "demo", Secret: "demo-secret"}, "sim-1", sim.VMInput{
		ClientToken: "t", InstanceType: "small", Image: "linux-1", Tags: map[string]string{
			sim.NameTag: "m", machinev1.OwnerIDAnnotation: "owner-m",
			"kubernetes.io/cluster/test": "1", "kubernetes.io/role/node": "1",
		},
	})
	w.Must(err)
	w.vm = vm.ID
	w.Advance(time.Hour)
	w.Create(machine("m"), fixture.MCMMachine("m", "c1", "small", fixture.In[*infrav1.MCMMachine](namespace),
		fixture.Annotations[*infrav1.MCMMachine](machinev1.OwnerIDAnnotation, "owner-m"),
		func(m *infrav1.MCMMachine) { m.Spec.ProviderID = sim.ProviderID("sim-1a", vm.ID) }))
	w.sick("m")
	w.remediate(edit...)
	w.restart()
	return w
}

// remediate is what a MachineHealthCheck does.
func (w *env) remediate(edit ...func(*infrav1.MCMRemediation)) {
	w.Helper()
	o := &infrav1.MCMRemediation{ObjectMeta: metav1.ObjectMeta{
		Name: "m", Namespace: namespace, OwnerReferences: []metav1.OwnerReference{fixture.CAPIMachineOwner("m")},
		Annotations: map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "reboot"},
		Labels:      map[string]string{clusterv1.ClusterNameLabel: "c1"}, CreationTimestamp: metav1.NewTime(w.Clock.Now()),
	}}
	o.Spec.Strategy = infrav1.RemediationStrategy{
		Type: infrav1.RebootStrategy, RetryLimit: new(int32(2)), TimeoutSeconds: new(int32(timeout / time.Second)),
		CooldownSeconds: new(int32(cooldown / time.Second)),
	}
	for _, f := range edit {
		f(o)
	}
	w.Create(o)
	w.condition(clusterv1.MachineExternallyRemediatedCondition, metav1.ConditionFalse,
		clusterv1.MachineExternallyRemediatedWaitingForRemediationReason)
}

// restart loses everything that the controller remembers.
func (w *env) restart() {
	var wraps []cloud.Middleware
	if w.calls != nil {
		wraps = append(wraps, func(_ cloud.AccountInfo, next cloud.Account) cloud.Account { return w.calls(next) })
	}
	w.controller = New(Deps{
		Client: w.Client, Live: w.Client, Clouds: w.Registry(w.cloud, wraps...), Clock: w.Clock, Events: w.Events,
		Options: w.options,
	})
}

// onReboot lets a test play reboots.
func (w *env) onReboot(f func(next func() error) error) {
	w.calls = func(next cloud.Account) cloud.Account { return account{next, f} }
	w.restart()
}

func (w *env) run() time.Duration {
	w.Helper()
	return w.Reconcile(w.controller, key("m")).RequeueAfter
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

func (w *env) object() *infrav1.MCMRemediation {
	return harness.Get[infrav1.MCMRemediation](w.Cluster, key("m"))
}

func (w *env) machine() *clusterv1.Machine {
	return harness.Get[clusterv1.Machine](w.Cluster, key("m"))
}

func (w *env) boots() int {
	vm, _, _ := w.cloud.Look(w.vm)
	return vm.VM.Boots
}

// expect fails unless the remediation is there, after so many reboots.
func (w *env) expect(phase infrav1.RemediationPhase, reason string, boots int) {
	w.Helper()
	o := w.object()
	is := conditions.Get(o, infrav1.RemediatedCondition)
	if is == nil || o.Status.Phase != phase || is.Reason != reason || w.boots() != boots {
		w.Errorf("phase %q, %+v, %d reboots; want %q, %s, %d", o.Status.Phase, is, w.boots(), phase, reason, boots)
	}
	replaced := phase == infrav1.RemediationReplacing && reason != infrav1.ReasonMachineDeleting
	if asked := handedOver(w.machine()); asked != replaced {
		w.Errorf("%s: the owner was asked to replace the Machine: %v", reason, asked)
	}
}

// condition sets a condition of the Machine.
func (w *env) condition(kind string, status metav1.ConditionStatus, reason string) {
	w.Helper()
	harness.Edit(w.Cluster, machine("m"), func(m *clusterv1.Machine) {
		conditions.Set(m, metav1.Condition{
			Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(w.Clock.Now()),
		})
	})
}

// sick lets the node of a Machine be away, and the check notice.
func (w *env) sick(name string) {
	w.Helper()
	harness.Edit(w.Cluster, machine(name), func(m *clusterv1.Machine) {
		m.Status.NodeRef.Name = name
		for kind, reason := range map[string]string{
			clusterv1.MachineNodeReadyCondition: "X", clusterv1.MachineNodeHealthyCondition: "X",
			clusterv1.MachineHealthCheckSucceededCondition: clusterv1.MachineHealthCheckUnhealthyNodeReason,
		} {
			conditions.Set(m, metav1.Condition{
				Type: kind, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(w.Clock.Now()),
			})
		}
	})
}

// gone lets the MCMMachine report that its VM does not exist.
func (w *env) gone() {
	w.Helper()
	harness.Edit(w.Cluster, infra(), func(m *infrav1.MCMMachine) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: infrav1.VMProvisionedCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonInstanceNotFound,
		})
	})
}

func machine(name string) *clusterv1.Machine {
	return fixture.CAPIMachine(name, "c1", fixture.In[*clusterv1.Machine](namespace), func(m *clusterv1.Machine) {
		m.Labels[clusterv1.MachineDeploymentNameLabel] = "pool"
	})
}

func cluster() *clusterv1.Cluster {
	return fixture.Cluster("c1", fixture.In[*clusterv1.Cluster](namespace))
}

func smallClass() *machinev1.MachineClass {
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{
		Name: "small", Namespace: namespace, Finalizers: []string{machinev1.InUseFinalizer},
	}, Provider: "sim"}
	c.SecretRef = &corev1.SecretReference{Name: "small", Namespace: namespace}
	c.ProviderSpec.Raw = []byte(`{"endpoint":"http://sim","region":"sim-1","zone":"sim-1a","instanceType":"small",
		"image":"linux-1","tags":{"kubernetes.io/cluster/test":"1","kubernetes.io/role/node":"1"}}`)
	return c
}

func secret() *corev1.Secret {
	return fixture.Secret("small", map[string]string{"accountID": "demo", "secretKey": "demo-secret"},
		fixture.In[*corev1.Secret](namespace))
}

func requestFor(name string) reconcile.Request { return reconcile.Request{NamespacedName: key(name)} }
