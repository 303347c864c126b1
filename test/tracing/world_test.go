package tracing

import (
	"context"
	"iter"
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/internal/tracing"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
)

// canary is in everything that is secret.
const canary = "canary-of-a-secret"

// owner is the owner ID of the machine.
const owner = "369bc99c-aa2d-5c13-837d-8cfcb4eb5c1c"

// began is when the machine was created.
var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func second(n int) metav1.Time { return metav1.NewTime(began.Add(time.Duration(n) * time.Second)) }

// account is a cloud that is full at first, and needs two calls to delete a VM.
type account struct {
	cloud.Account // no other calls are made

	creates, deletes int
}

func (a *account) Create(context.Context, cloud.CreateRequest) (cloud.VM, error) {
	a.creates++
	if a.creates == 1 {
		full := cloud.Errorf(cloud.Exhausted, "run instance", "InsufficientInstanceCapacity", "no room for %s", canary)
		full.RetryAfter = 30 * time.Second
		return cloud.VM{}, full
	}
	return cloud.VM{ProviderID: "sim:///a/vm-1"}, nil
}

func (a *account) Delete(context.Context, cloud.Ref) (cloud.Deletion, error) {
	a.deletes++
	if a.deletes == 1 {
		return cloud.Deletion{RetryAfter: 5 * time.Second, Remaining: []string{"disk " + canary}}, nil
	}
	return cloud.Deletion{Done: true}, nil
}

func (a *account) List(context.Context, cloud.Class, ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(func(cloud.Resource, error) bool) {}
}

// informers are a cache with one informer, which says when it has its handler.
type informers struct {
	client.Reader
	*controllertest.FakeInformer
	ready chan struct{}
}

func (i informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i, nil
}

func (i informers) AddEventHandler(h toolscache.ResourceEventHandler) (
	toolscache.ResourceEventHandlerRegistration, error,
) {
	defer close(i.ready)
	return i.FakeInformer.AddEventHandler(h)
}

// live has a machine live its life: it is made with the second attempt, joins, and is deleted.
func live(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", CreationTimestamp: second(95)}}
	clock := testclock.NewFakePassiveClock(began)
	seen := informers{
		fake.NewClientBuilder().WithScheme(scheme).WithObjects(node).Build(), controllertest.NewFakeInformer(),
		make(chan struct{}),
	}
	observer := &tracing.Observer{Tracer: tracer, Cache: seen, Nodes: seen.Reader, Clock: clock, Native: true}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- observer.Start(ctx) }()
	<-seen.ready
	calls(t, tracer)
	lifeOf(seen.FakeInformer, clock)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// calls are those that a controller makes for the machine.
func calls(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	cloudAccount := wrap.Trace(tracer.Call)(cloud.AccountInfo{
		Driver: cloud.Traits{Name: "Sim"}, Redactor: cloud.NewRedactor([]string{canary}, nil),
	}, &account{})
	request := cloud.CreateRequest{
		Ref: cloud.Ref{
			Name: "workers-abcde-1", OwnerID: owner, State: canary,
			Class: cloud.Class{Name: "workers"},
		},
		UserData: []byte(canary), Tags: map[string]string{"x": canary}, Annotations: map[string]string{"x": canary},
	}
	if _, err := cloudAccount.Create(t.Context(), request); cloud.CodeOf(err) != cloud.Exhausted {
		t.Fatalf("the first create: %v", err)
	}
	if _, err := cloudAccount.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := cloudAccount.Delete(t.Context(), request.Ref); err != nil {
			t.Fatal(err)
		}
	}
}

// lifeOf is what an informer shows of the machine.
func lifeOf(informer *controllertest.FakeInformer, clock *testclock.FakePassiveClock) {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: "workers-abcde-1", Namespace: "garden", UID: "uid", CreationTimestamp: second(0),
		Annotations: map[string]string{machinev1.OwnerIDAnnotation: owner, "x": canary},
		Labels:      map[string]string{machinev1.NodeLabel: "node-1", machinev1.NameLabel: "workers"},
	}}
	m.Spec.Class.Name = "workers"
	informer.Add(m)
	m.Spec.ProviderID = "sim:///a/vm-1"
	m.Status.Progress = &machinev1.Progress{Conditions: []metav1.Condition{{
		Type: machinev1.ConditionVMReady, Status: metav1.ConditionTrue, LastTransitionTime: second(40), Message: canary,
	}}}
	informer.Update(m, m)
	m.Status.CurrentStatus.Phase, m.Status.CurrentStatus.LastUpdateTime = machinev1.MachineRunning, second(110)
	m.Status.LastOperation.Type = machinev1.MachineOperationCreate
	informer.Update(m, m)
	m.DeletionTimestamp = new(second(3600))
	m.Status.Progress.Conditions = append(m.Status.Progress.Conditions, metav1.Condition{
		Type: machinev1.ConditionDrained, Status: metav1.ConditionTrue, LastTransitionTime: second(3630),
	}, metav1.Condition{
		Type: machinev1.ConditionDeleted, Status: metav1.ConditionFalse, Reason: machinev1.ReasonDetachingVolumes,
	})
	informer.Update(m, m)
	clock.SetTime(second(3640).Time)
	m.Status.Progress.Conditions[2].Reason = machinev1.ReasonDeletingVM
	informer.Update(m, m)
	clock.SetTime(second(3655).Time)
	informer.Delete(m)
}
