package fields

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

const (
	// maxUnhealthy is the share of unhealthy machines above which it is not the machines.
	maxUnhealthy = "40%"
	// minMachinesForLimit is the number of machines from which that share allows at least one.
	minMachinesForLimit = 3
	// minStartupTimeout is the least that Cluster API takes for nodeStartupTimeoutSeconds.
	minStartupTimeout = 30 * time.Second
)

// healthCheck makes the MachineHealthCheck that replaces machines when MCM would.
// A Machine that belongs to no set is replaced on neither API.
func (c *toClusterAPI) healthCheck() {
	if c.Native.Deployment == nil && (c.Pool.Kind != migration.KindSet || len(c.Native.Sets) == 0) {
		return
	}
	from := c.healthSource()
	check := &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Pool.Namespace, Name: c.Pool.Name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster},
			Annotations:     map[string]string{machinev1.MigratedFromAnnotation: from.origin},
			OwnerReferences: []metav1.OwnerReference{c.clusterOwner()},
		},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: c.options.Cluster,
			Selector:    metav1.LabelSelector{MatchLabels: from.labels},
		},
	}
	c.spec(c.nativeSpec(from.config, from.annotations), &clusterv1.MachineSpec{}, &check.Spec.Checks)
	if len(c.Native.Machines) >= minMachinesForLimit {
		check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromString(maxUnhealthy))
	}
	c.out.HealthCheck = check
}

// healthSource is what a MachineHealthCheck is made from.
type healthSource struct {
	config      *machinev1.MachineConfiguration // of the pool's template
	annotations map[string]string               // that count for config
	labels      map[string]string               // of the pool's Machines on Cluster API
	origin      string
}

// healthSource returns that of the pool.
func (c *toClusterAPI) healthSource() healthSource {
	if d := c.Native.Deployment; d != nil {
		return healthSource{
			config: d.Spec.Template.Spec.MachineConfiguration, annotations: d.Annotations,
			labels: map[string]string{clusterv1.MachineDeploymentNameLabel: d.Name},
			origin: objects.CopyOf(machinev1.MachineDeploymentKind, d),
		}
	}
	s := &c.Native.Sets[0]
	return healthSource{
		config: s.Spec.Template.Spec.MachineConfiguration, annotations: s.Annotations,
		labels: map[string]string{clusterv1.MachineSetNameLabel: format.MustFormatValue(s.Name)},
		origin: objects.CopyOf(machinev1.MachineSetKind, s),
	}
}
