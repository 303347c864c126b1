package tracing

import (
	"context"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// began is when the machines of these tests were created.
var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is a time after that.
func at(minutes int) metav1.Time {
	return metav1.NewTime(began.Add(time.Duration(minutes) * time.Minute))
}

// env is an Observer on what a test writes.
type env struct {
	*Observer
	t       *testing.T
	client  client.Client
	clock   *testclock.FakePassiveClock
	spans   *tracetest.InMemoryExporter
	handler toolscache.ResourceEventHandler
}

// store is a cache that reads from a client; informers has its informers by the type of the object.
type store struct {
	client.Reader
	informers map[string]*controllertest.FakeInformer
}

func (s store) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return s.informers[kindOf(o)], nil
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *machinev1.Machine:
		return "Machine"
	case *infrav1.MCMMachine:
		return "MCMMachine"
	}
	return "Machine of Cluster API"
}

func newEnv(t *testing.T) *env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &env{
		t: t, client: fake.NewClientBuilder().WithScheme(scheme).Build(), spans: tracetest.NewInMemoryExporter(),
		clock: testclock.NewFakePassiveClock(began),
	}
	tracer, err := New(t.Context(), w.spans, "test", "v1")
	if err != nil {
		t.Fatal(err)
	}
	w.Observer = &Observer{
		Tracer: tracer, Cache: store{Reader: w.client}, Nodes: w.client, Clock: w.clock, Native: true, ClusterAPI: true,
	}
	w.lead(0)
	return w
}

// lead is a new leader that begins at that minute.
func (w *env) lead(minute int) {
	w.clock.SetTime(at(minute).Time)
	w.lives = newLives(w.Tracer, w.Clock)
	w.handler = w.Observer.handler(w.t.Context())
}

// exported are the spans that have been exported since the last call.
func (w *env) exported() tracetest.SpanStubs {
	w.t.Helper()
	if err := w.Tracer.provider.ForceFlush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	defer w.spans.Reset()
	return w.spans.GetSpans()
}

// want checks which spans have been exported since the last check: their names, with the minutes.
func (w *env) want(reason string, want ...string) {
	w.t.Helper()
	var got []string
	for _, s := range w.exported() {
		got = append(got, s.Name+" "+s.StartTime.Sub(began).String()+" "+s.EndTime.Sub(began).String())
		id := naming.SpanID("owner", s.Name)
		if trace := naming.TraceID("owner"); s.SpanContext.TraceID() != trace || s.SpanContext.SpanID() != id {
			w.t.Errorf("span %s has IDs %s and %s", s.Name, s.SpanContext.TraceID(), s.SpanContext.SpanID())
		}
		parent := hex.EncodeToString(nameOf(naming.SpanID("owner", spanMachine)))
		if s.Name != spanMachine && s.Parent.SpanID().String() != parent {
			w.t.Errorf("span %s is below %s, want the machine's life", s.Name, s.Parent.SpanID())
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: exported %q, want %q", reason, got, want)
	}
}

func nameOf(id [8]byte) []byte { return id[:] }

// machine is a Machine whose VM is made.
func machine() *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: "m", Namespace: "ns", UID: "uid", CreationTimestamp: at(0),
		Annotations: map[string]string{machinev1.OwnerIDAnnotation: "owner"},
		Labels:      map[string]string{machinev1.NodeLabel: "node"},
	}}
	set(m, machinev1.ConditionVMReady, metav1.ConditionTrue, machinev1.ReasonVMRunning, 1)
	return m
}

// set sets a condition of a Machine since a minute.
func set(m *machinev1.Machine, kind string, status metav1.ConditionStatus, reason string, since int) {
	if m.Status.Progress == nil {
		m.Status.Progress = &machinev1.Progress{}
	}
	m.Status.Progress.Conditions = slices.DeleteFunc(m.Status.Progress.Conditions,
		func(c metav1.Condition) bool { return c.Type == kind })
	m.Status.Progress.Conditions = append(m.Status.Progress.Conditions,
		metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: at(since)})
}

func runs(m *machinev1.Machine, since int, operation machinev1.MachineOperationType) {
	m.Status.CurrentStatus.Phase, m.Status.CurrentStatus.LastUpdateTime = machinev1.MachineRunning, at(since)
	m.Status.LastOperation.Type = operation
}

func (w *env) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// TestALifeIsOneTrace: each phase is exported once, when it is over, by whoever leads then.
func TestALifeIsOneTrace(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	m := machine()
	w.handler.OnAdd(m, false)
	w.want("the VM is made", "make 0s 1m0s")
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", CreationTimestamp: at(2)}})
	runs(m, 3, machinev1.MachineOperationCreate)
	w.handler.OnUpdate(m, m)
	w.want("the node is healthy", "boot 1m0s 2m0s", "join 2m0s 3m0s")
	runs(m, 50, machinev1.MachineOperationHealthCheck)
	w.handler.OnUpdate(m, m)
	w.want("a fault is over, and nothing new of the life")

	m.DeletionTimestamp = new(at(100))
	set(m, machinev1.ConditionDrained, metav1.ConditionTrue, machinev1.ReasonDrained, 102)
	set(m, machinev1.ConditionDeleted, metav1.ConditionFalse, machinev1.ReasonDetachingVolumes, 102)
	w.lead(102)
	w.handler.OnAdd(m, true)
	w.want("the next leader exports what has just ended, and nothing older", "drain 1h40m0s 1h42m0s")
	w.clock.SetTime(at(104).Time)
	set(m, machinev1.ConditionDeleted, metav1.ConditionFalse, machinev1.ReasonDeletingNode, 102)
	w.handler.OnUpdate(m, m)
	w.want("no volume is waited for any more", "detach 1h42m0s 1h44m0s")
	w.clock.SetTime(at(105).Time)
	w.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/m", Obj: m})
	w.want("the machine is gone", "delete 1h44m0s 1h45m0s", "machine 0s 1h45m0s")
	if len(w.lives.all) > 0 || len(w.Tracer.traces) > 0 {
		t.Error("a machine that is gone is remembered")
	}
}

// TestANewLeaderExportsTheSameSpan: what ended shortly before it began is exported again, as the same
// span, since the former leader may have had no time for that.
func TestANewLeaderExportsTheSameSpan(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	m := machine()
	w.handler.OnAdd(m, false)
	first := w.exported()
	w.lead(2)
	w.handler.OnAdd(m, true)
	again := w.exported()
	if len(first) != 1 || len(again) != 1 || !first[0].SpanContext.Equal(again[0].SpanContext) ||
		!first[0].EndTime.Equal(again[0].EndTime) {
		t.Errorf("exported %v, then %v", first, again)
	}
	w.lead(12)
	w.handler.OnAdd(m, true)
	w.want("it is too old to have been missed")
}

// TestClusterAPI: the trace is that of the MCMMachine; its Machine tells of Node and drain.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "ns", UID: "m"}}
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "MCMMachine", Name: "i",
	}
	w.create(owner)
	infra := &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{
		Name: "i", Namespace: "ns", UID: "i", CreationTimestamp: at(0),
		Annotations:     map[string]string{machinev1.OwnerIDAnnotation: "owner"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Machine", Name: "m", UID: "m"}},
	}}
	infra.Status.Conditions = []metav1.Condition{{
		Type: infrav1.VMProvisionedCondition, Status: metav1.ConditionTrue, LastTransitionTime: at(1),
	}}
	w.create(infra)
	w.handler.OnAdd(infra, false)
	w.want("the VM is made", "make 0s 1m0s")
	owner.Status.Phase, owner.Status.LastUpdated = string(clusterv1.MachinePhaseRunning), at(2)
	owner.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: at(3),
	}}
	if err := w.client.Update(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	w.handler.OnUpdate(owner, owner)
	w.want("Cluster API has seen the Node", "boot 1m0s 2m0s", "join 2m0s 3m0s")
	owner.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: at(5)}
	if err := w.client.Update(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	infra.DeletionTimestamp = new(at(7))
	w.handler.OnUpdate(infra, infra)
	w.want("Cluster API has drained the Node", "drain 5m0s 7m0s")
	w.clock.SetTime(at(8).Time)
	w.handler.OnDelete(infra)
	w.want("the VM is gone", "delete 7m0s 8m0s", "machine 0s 8m0s")
}

// TestStartObservesUntilItEnds: informers of all kinds are observed, and not after the end of the
// context.
func TestStartObservesUntilItEnds(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	informers := map[string]*controllertest.FakeInformer{
		"Machine": {}, "MCMMachine": {}, "Machine of Cluster API": {},
	}
	w.Cache = store{w.client, informers}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Start(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	informers["Machine"].Add(machine())
	w.want("the fake informer keeps its handlers, so the Observer has had one", "make 0s 1m0s")
}

// TestCallsAreBelowTheirPhase: of a machine, and of a process that never saw the machine itself.
func TestCallsAreBelowTheirPhase(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for operation, parent := range map[string]string{
		"create VM": "make", "delete VM": "delete", "deregister VM": "delete", "get VM": "machine",
	} {
		_, span := w.Tracer.Call(t.Context(), "owner", operation)
		span.End()
		got := w.exported()[0]
		if got.Parent.SpanID() != naming.SpanID("owner", parent) || got.Parent.TraceID() != naming.TraceID("owner") {
			t.Errorf("%s is below %s, want %s", operation, got.Parent.SpanID(), parent)
		}
	}
	_, a := w.Tracer.Call(t.Context(), "", "list resources")
	_, b := w.Tracer.Call(t.Context(), "", "list resources")
	if a.SpanContext().TraceID() == b.SpanContext().TraceID() || !a.SpanContext().IsValid() {
		t.Error("calls without machine are in one trace")
	}
}

// TestSamplerDecidesForTheWholeTrace: calls and phases of a machine that is not sampled are not
// exported, whichever process makes them.
func TestSamplerDecidesForTheWholeTrace(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	none := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))
	w.Tracer.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(w.spans), sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(none))
	w.Tracer.tracer = w.Tracer.provider.Tracer("test")
	w.handler.OnAdd(machine(), false)
	_, span := w.Tracer.Call(t.Context(), "owner", "create VM")
	span.End()
	w.handler.OnDelete(machine())
	w.want("nothing is sampled")
}
