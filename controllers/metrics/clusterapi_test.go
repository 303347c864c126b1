package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

func provider(name string) metav1.ObjectMeta {
	m := meta(name)
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "c1"}
	return m
}

func clusterAPI(t *testing.T, c client.Reader) *ClusterAPI {
	t.Helper()
	return NewClusterAPI(c, scrape(t), nil, MCMMachines(), MCMClusters(), MCMExternalControlPlanes())
}

func TestMCMMachines(t *testing.T) {
	t.Parallel()
	m := &infrav1.MCMMachine{ObjectMeta: provider("m1")}
	m.Spec.MachineClassRef.Name, m.Spec.ProviderID = "first", "sim:///m1"
	m.Status.MachineClassName, m.Status.FailureDomain = "second", "z1"
	m.Status.Initialization.Provisioned = new(true)
	m.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "InstanceNotFound"}}
	deleting := &infrav1.MCMMachine{ObjectMeta: provider("m2")}
	deleting.Spec.MachineClassRef.Name = "first"
	deleting.DeletionTimestamp, deleting.Finalizers = new(metav1.Unix(1700000100, 0)), []string{"a/b"}
	compare(t, "a machine is shown with the class that its VM has, and when its deletion began", clusterAPI(t,
		clientOf(t, m, deleting)), `
# HELP mcm_mcmmachine_deletion_timestamp_seconds Unix time at which the deletion of an MCMMachine was asked for.
# TYPE mcm_mcmmachine_deletion_timestamp_seconds gauge
mcm_mcmmachine_deletion_timestamp_seconds{name="m2",namespace="ns"} 1.7000001e+09
# HELP mcm_mcmmachine_info Information about an MCMMachine; always 1.
# TYPE mcm_mcmmachine_info gauge
mcm_mcmmachine_info{cluster="c1",createdAt="1700000000",failure_domain="",machine_class="first",name="m2",namespace="ns",provider_id=""} 1
mcm_mcmmachine_info{cluster="c1",createdAt="1700000000",failure_domain="z1",machine_class="second",name="m1",namespace="ns",provider_id="sim:///m1"} 1
# HELP mcm_mcmmachine_provisioned 1 once the VM has been created.
# TYPE mcm_mcmmachine_provisioned gauge
mcm_mcmmachine_provisioned{name="m1",namespace="ns"} 1
mcm_mcmmachine_provisioned{name="m2",namespace="ns"} 0
# HELP mcm_mcmmachine_status_condition Status of a condition of an MCMMachine: 1 True, 0 False, 2 Unknown.
# TYPE mcm_mcmmachine_status_condition gauge
mcm_mcmmachine_status_condition{condition="Ready",name="m1",namespace="ns",reason="InstanceNotFound"} 0
`)
}

func TestMCMClustersAndControlPlanes(t *testing.T) {
	t.Parallel()
	cluster := &infrav1.MCMCluster{ObjectMeta: provider("c1")}
	plane := &controlplanev1.MCMExternalControlPlane{ObjectMeta: provider("p1")}
	plane.Spec.SelfHosted = new(true)
	plane.Status.Version = "v1.36.3"
	plane.Status.Initialization.ControlPlaneInitialized = new(true)
	plane.Status.Conditions = []metav1.Condition{
		{Type: "Available", Status: metav1.ConditionUnknown, Reason: "NotConnected"},
	}
	compare(t, "clusters and control planes are shown as machines are", clusterAPI(t, clientOf(t, cluster, plane)), `
# HELP mcm_mcmcluster_info Information about an MCMCluster; always 1.
# TYPE mcm_mcmcluster_info gauge
mcm_mcmcluster_info{cluster="c1",createdAt="1700000000",name="c1",namespace="ns"} 1
# HELP mcm_mcmcluster_provisioned 1 once machines may be created.
# TYPE mcm_mcmcluster_provisioned gauge
mcm_mcmcluster_provisioned{name="c1",namespace="ns"} 0
# HELP mcm_mcmexternalcontrolplane_info Information about an MCMExternalControlPlane; always 1.
# TYPE mcm_mcmexternalcontrolplane_info gauge
mcm_mcmexternalcontrolplane_info{cluster="c1",createdAt="1700000000",name="p1",namespace="ns",self_hosted="true",version="v1.36.3"} 1
# HELP mcm_mcmexternalcontrolplane_initialized 1 once the API server has answered.
# TYPE mcm_mcmexternalcontrolplane_initialized gauge
mcm_mcmexternalcontrolplane_initialized{name="p1",namespace="ns"} 1
# HELP mcm_mcmexternalcontrolplane_status_condition Status of a condition of an MCMExternalControlPlane: 1 True, 0 False, 2 Unknown.
# TYPE mcm_mcmexternalcontrolplane_status_condition gauge
mcm_mcmexternalcontrolplane_status_condition{condition="Available",name="p1",namespace="ns",reason="NotConnected"} 2
`)
}

func TestClusterAPIStandby(t *testing.T) {
	t.Parallel()
	c := clusterAPI(t, clientOf(t, &infrav1.MCMCluster{ObjectMeta: provider("c1")}))
	c.active = func() bool { return false }
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("a standby shows %d series, want none: sums over all processes would be too high", n)
	}
}

func TestClusterAPIScrapeFailures(t *testing.T) {
	t.Parallel()
	broken := interceptor.NewClient(clientOf(t, &infrav1.MCMCluster{ObjectMeta: provider("c1")}), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*infrav1.MCMMachineList); ok {
				return errors.New("no cache")
			}
			return c.List(ctx, l, opts...)
		},
	})
	compare(t, "a kind that cannot be read is counted and does not hide the others", clusterAPI(t, broken), `
# HELP mcm_mcmcluster_provisioned 1 once machines may be created.
# TYPE mcm_mcmcluster_provisioned gauge
mcm_mcmcluster_provisioned{name="c1",namespace="ns"} 0
# HELP mcm_misc_scrape_failure_total Number of times that objects of a kind could not be read for metrics.
# TYPE mcm_misc_scrape_failure_total counter
mcm_misc_scrape_failure_total{binary="cluster-api-provider-mcm",kind="MCMMachine"} 1
`, "mcm_misc_scrape_failure_total", "mcm_mcmcluster_provisioned", "mcm_mcmmachine_provisioned")
}

func TestProcess(t *testing.T) {
	t.Parallel()
	leads := false
	l := NewLeading([]string{"machine.sapcloud.io"}, func() bool { return leads })
	if v := testutil.ToFloat64(l); v != 0 {
		t.Errorf("a standby shows %v, want 0: an alert has to tell it from a process that is not there", v)
	}
	leads = true
	if v := testutil.ToFloat64(l); v != 1 {
		t.Errorf("a leader shows %v, want 1", v)
	}
	if _, err := NewRegistry(l, NewBuildInfo("v1.2.3", "0123abc"), clusterAPI(t, clientOf(t)),
		NewObjects(clientOf(t), scrape(t), nil, nil)); err != nil {
		t.Errorf("the collectors do not fit together: %v", err)
	}
	labels := NewBuildInfo("v1.2.3", "0123abc")
	if n := testutil.CollectAndCount(labels, "mcm_build_info"); n != 1 {
		t.Errorf("%d series of mcm_build_info, want 1", n)
	}
}
