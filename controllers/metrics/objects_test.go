package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func clientOf(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return harness.New(t, harness.With(objects...), harness.Indexed(index.Control())).Raw
}

func scrape(t *testing.T) Scrape {
	t.Helper()
	return func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.Unix(1700000000, 0)}
}

func compare(t *testing.T, reason string, c prometheus.Collector, want string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Errorf("%s\n%v", reason, err)
	}
}

func machine(name string, phase machinev1.MachinePhase) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: meta(name)}
	m.Labels = map[string]string{"node": "node-" + name}
	m.Spec.ProviderID = "sim:///" + name
	m.Spec.Class = machinev1.ClassSpec{APIGroup: "machine.sapcloud.io", Kind: "MachineClass", Name: "class"}
	m.Status.CurrentStatus.Phase = phase
	return m
}

func TestMachines(t *testing.T) {
	t.Parallel()
	m := machine("m1", machinev1.MachineRunning)
	m.Status.Conditions = []corev1.NodeCondition{
		{Type: "Ready", Status: corev1.ConditionTrue},
		{Type: "DiskPressure", Status: corev1.ConditionUnknown},
		{Type: "Ready", Status: corev1.ConditionFalse},
		{Type: machinev1.MachineJoined, Status: corev1.ConditionTrue},
	}
	o := NewObjects(clientOf(t, m), scrape(t), nil, func() bool { return true })
	compare(t, "a machine is described under MCM's names; a condition that is there twice does not break the scrape", o, `
# HELP mcm_machine_controller_frozen 1 while machines are frozen because Machines or Nodes cannot be listed.
# TYPE mcm_machine_controller_frozen gauge
mcm_machine_controller_frozen 1
# HELP mcm_machine_info Information about a machine; always 1.
# TYPE mcm_machine_info gauge
mcm_machine_info{createdAt="1700000000",name="m1",namespace="ns",node_name="node-m1",spec_class_api_group="machine.sapcloud.io",spec_class_kind="MachineClass",spec_class_name="class",spec_provider_id="sim:///m1"} 1
# HELP mcm_machine_items_total Number of machines.
# TYPE mcm_machine_items_total gauge
mcm_machine_items_total 1
# HELP mcm_machine_status_condition Status of a condition of the machine's node: 1 True, 0 False, 2 Unknown.
# TYPE mcm_machine_status_condition gauge
mcm_machine_status_condition{condition="DiskPressure",name="m1",namespace="ns"} 2
mcm_machine_status_condition{condition="Ready",name="m1",namespace="ns"} 1
`, "mcm_machine_controller_frozen", "mcm_machine_info", "mcm_machine_items_total", "mcm_machine_status_condition")
}

func TestPhases(t *testing.T) {
	t.Parallel()
	cases := map[machinev1.MachinePhase]float64{
		"": 0, machinev1.MachineTerminating: -4, machinev1.MachineFailed: -3, machinev1.MachineCrashLoopBackOff: -2,
		machinev1.MachineUnknown: -1, machinev1.MachinePending: 0, machinev1.MachineAvailable: 0, machinev1.MachineRunning: 1,
		machinev1.MachineInPlaceUpdating: 0, "Other": 0,
	}
	for phase, want := range cases {
		if got := phaseValue(phase); got != want {
			t.Errorf("phase %q is %v, want MCM's %v", phase, got, want)
		}
	}
}

func TestMachineSets(t *testing.T) {
	t.Parallel()
	s := &machinev1.MachineSet{ObjectMeta: meta("s1")}
	s.Spec.Replicas = 3
	s.Status = machinev1.MachineSetStatus{
		Replicas: 3, ReadyReplicas: 1, AvailableReplicas: 2,
		FailedMachines: &[]machinev1.MachineSummary{
			{Name: "m1", ProviderID: "p", OwnerRef: "s1", LastOperation: machinev1.LastOperation{
				State: "Failed",
				Type:  "Create",
			}},
			{Name: "m1"},
		},
	}
	o := NewObjects(clientOf(t, s), scrape(t), nil, nil)
	compare(t, "status.replicas is its own number, which MCM confuses with the ready ones; a machine listed twice "+
		"counts once", o, `
# HELP mcm_machine_set_failed_machines A machine of the set whose last operation failed; always 1.
# TYPE mcm_machine_set_failed_machines gauge
mcm_machine_set_failed_machines{failed_machine_last_operation_machine_operation_type="Create",failed_machine_last_operation_state="Failed",failed_machine_name="m1",failed_machine_owner_ref="s1",failed_machine_provider_id="p",name="s1",namespace="ns"} 1
# HELP mcm_machine_set_status_ready_replicas Number of ready machines.
# TYPE mcm_machine_set_status_ready_replicas gauge
mcm_machine_set_status_ready_replicas{name="s1",namespace="ns"} 1
# HELP mcm_machine_set_status_replicas Number of machines.
# TYPE mcm_machine_set_status_replicas gauge
mcm_machine_set_status_replicas{name="s1",namespace="ns"} 3
`, "mcm_machine_set_status_replicas", "mcm_machine_set_status_ready_replicas", "mcm_machine_set_failed_machines")
}

func TestMachineDeployments(t *testing.T) {
	t.Parallel()
	d := &machinev1.MachineDeployment{ObjectMeta: meta("d1")}
	d.Spec.Replicas = 10
	d.Spec.Paused = true
	d.Spec.Strategy = machinev1.MachineDeploymentStrategy{
		Type: machinev1.RollingUpdateStrategyType,
		RollingUpdate: &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: machinev1.UpdateConfiguration{
			MaxSurge: new(intstr.FromString("25%")), MaxUnavailable: new(intstr.FromString("25%")),
		}},
	}
	d.Status.FailedMachines = []*machinev1.MachineSummary{nil, {Name: "m1"}}
	plain := &machinev1.MachineDeployment{ObjectMeta: meta("d2")}
	broken := &machinev1.MachineDeployment{ObjectMeta: meta("d3")}
	broken.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{
		UpdateConfiguration: machinev1.UpdateConfiguration{MaxSurge: new(intstr.FromString("x"))},
	}
	o := NewObjects(clientOf(t, d, plain, broken), scrape(t), nil, nil)
	compare(t, "percentages are resolved, which MCM shows as 0; what a deployment does not have is not shown", o, `
# HELP mcm_machine_deployment_info_spec_paused 1 while rollouts are paused.
# TYPE mcm_machine_deployment_info_spec_paused gauge
mcm_machine_deployment_info_spec_paused{name="d1",namespace="ns"} 1
mcm_machine_deployment_info_spec_paused{name="d2",namespace="ns"} 0
mcm_machine_deployment_info_spec_paused{name="d3",namespace="ns"} 0
# HELP mcm_machine_deployment_info_spec_rolling_update_max_surge Machines that a rolling update may add; a percentage is resolved.
# TYPE mcm_machine_deployment_info_spec_rolling_update_max_surge gauge
mcm_machine_deployment_info_spec_rolling_update_max_surge{name="d1",namespace="ns"} 3
# HELP mcm_machine_deployment_info_spec_rolling_update_max_unavailable Machines that may be unavailable in a rolling update; a percentage is resolved.
# TYPE mcm_machine_deployment_info_spec_rolling_update_max_unavailable gauge
mcm_machine_deployment_info_spec_rolling_update_max_unavailable{name="d1",namespace="ns"} 2
`, "mcm_machine_deployment_info_spec_paused", "mcm_machine_deployment_info_spec_rolling_update_max_surge",
		"mcm_machine_deployment_info_spec_rolling_update_max_unavailable")
}

func TestNoSeriesOfDeletedObjects(t *testing.T) {
	t.Parallel()
	m := machine("m1", machinev1.MachineRunning)
	c := clientOf(t, m)
	o := NewObjects(c, scrape(t), nil, nil)
	if n := testutil.CollectAndCount(o, "mcm_machine_info"); n != 1 {
		t.Fatalf("%d machines before, want 1", n)
	}
	if err := c.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(o, "mcm_machine_info", "mcm_machine_current_status_phase"); n != 0 {
		t.Errorf("%d series of a deleted machine, want none", n)
	}
}

func TestStandbyShowsNoObjects(t *testing.T) {
	t.Parallel()
	active := false
	o := NewObjects(clientOf(t, machine("m1", "")), scrape(t), func() bool { return active }, nil)
	if n := testutil.CollectAndCount(o); n != 0 {
		t.Errorf("a standby shows %d series, want none: sums over all processes would be too high", n)
	}
	active = true
	if n := testutil.CollectAndCount(o, "mcm_machine_items_total"); n != 1 {
		t.Errorf("a leader shows %d series of mcm_machine_items_total, want 1", n)
	}
}

func TestScrapeFailures(t *testing.T) {
	t.Parallel()
	c := interceptor.NewClient(clientOf(t), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*machinev1.MachineSetList); ok {
				return errors.New("no cache")
			}
			return c.List(ctx, l, opts...)
		},
	})
	o := NewObjects(c, scrape(t), nil, nil)
	compare(t, "a kind that cannot be read is counted and does not hide the others", o, `
# HELP mcm_machine_deployment_items_total Number of machine deployments.
# TYPE mcm_machine_deployment_items_total gauge
mcm_machine_deployment_items_total 0
# HELP mcm_misc_scrape_failure_total Number of times that objects of a kind could not be read for metrics.
# TYPE mcm_misc_scrape_failure_total counter
mcm_misc_scrape_failure_total{binary="machine-controller-manager",kind="MachineSet"} 1
`, "mcm_misc_scrape_failure_total", "mcm_machine_deployment_items_total", "mcm_machine_set_items_total")
}

func TestLint(t *testing.T) {
	t.Parallel()
	m := machine("m1", machinev1.MachineRunning)
	s := &machinev1.MachineSet{ObjectMeta: meta("s1")}
	d := &machinev1.MachineDeployment{ObjectMeta: meta("d1")}
	c := clientOf(t, m, s, d)
	durations := NewDurations(c, scrape(t))
	durations.Observe(pooled("m1", "d1"), "large", "z1", "create", 1)
	registry, err := NewRegistry(NewObjects(c, scrape(t), nil, nil), durations, NewRequests(clock.RealClock{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Gatherer(Both).Gather(); err != nil {
		t.Errorf("what is collected contradicts itself: %v", err)
	}
}

func pooled(name, pool string) *machinev1.Machine {
	m := machine(name, machinev1.MachineRunning)
	m.Labels["name"] = pool
	return m
}

func TestDurations(t *testing.T) {
	t.Parallel()
	m := pooled("m1", "pool")
	c := clientOf(t, m)
	d := NewDurations(c, scrape(t))
	d.Observe(m, "large", "z1", "create", 3)
	d.Observe(m, "large", "z1", "create", 4)
	d.Observe(m, "large", "z1", "drain", 60)
	d.Observe(m, "large", "z1", "something", 1)
	d.Observe(machine("m2", ""), "large", "z1", "create", 9)
	d.FailedJoin(m, "large", "z1")
	names := []string{
		"mcm_machine_create_duration_seconds", "mcm_machine_drain_duration_seconds",
		"mcm_machine_num_failed_join",
	}
	compare(t, "MCM's gauges hold the last machine's duration; machines without pool do not count", d, `
# HELP mcm_machine_create_duration_seconds How long the step create of the last machine of the pool took.
# TYPE mcm_machine_create_duration_seconds gauge
mcm_machine_create_duration_seconds{instance_type="large",machine_deployment="pool",namespace="ns",zone="z1"} 4
# HELP mcm_machine_drain_duration_seconds How long the step drain of the last machine of the pool took.
# TYPE mcm_machine_drain_duration_seconds gauge
mcm_machine_drain_duration_seconds{machine_deployment="pool",namespace="ns"} 60
# HELP mcm_machine_num_failed_join Machines whose node did not join in time.
# TYPE mcm_machine_num_failed_join counter
mcm_machine_num_failed_join{instance_type="large",machine_deployment="pool",namespace="ns",zone="z1"} 1
`, names...)
	if n := testutil.CollectAndCount(d, "mcm_machine_step_duration_seconds"); n != 4 {
		t.Errorf("%d histograms, want one for each of three steps, and that of the joins to come", n)
	}
	if err := c.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(d); n != 0 {
		t.Errorf("%d series of a pool that is gone, want none", n)
	}
}

func TestSeriesAreThereBeforeTheFirstFailedJoin(t *testing.T) {
	t.Parallel()
	m := pooled("m2", "pool")
	d := NewDurations(clientOf(t, m), scrape(t))
	d.Observe(m, "large", "z1", "create", 3)
	compare(t, "an increase is measured between two samples, so the first failure needs a sample before it", d, `
# HELP mcm_machine_num_failed_join Machines whose node did not join in time.
# TYPE mcm_machine_num_failed_join counter
mcm_machine_num_failed_join{instance_type="large",machine_deployment="pool",namespace="ns",zone="z1"} 0
`, "mcm_machine_num_failed_join")
	d.FailedJoin(m, "large", "z1")
	d.Observe(m, "large", "z1", "delete", 3)
	if n := testutil.ToFloat64(only{d, "mcm_machine_num_failed_join"}); n != 1 {
		t.Errorf("%v failed joins after a later step of the place, want the one that was counted", n)
	}
}

// only are the metrics of one name.
type only struct {
	prometheus.Collector
	name string
}

func (o only) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric, 1000)
	o.Collector.Collect(all)
	close(all)
	for m := range all {
		if descName.FindStringSubmatch(m.Desc().String())[1] == o.name {
			ch <- m
		}
	}
}

func TestPoolScaledToZeroIsKept(t *testing.T) {
	t.Parallel()
	c := clientOf(t, &machinev1.MachineDeployment{ObjectMeta: meta("pool")})
	d := NewDurations(c, scrape(t))
	d.Observe(pooled("m1", "pool"), "large", "z1", "create", 3)
	if n := testutil.CollectAndCount(d, "mcm_machine_create_duration_seconds"); n != 1 {
		t.Errorf("%d series of a pool without machines whose deployment is there, want 1", n)
	}
}
