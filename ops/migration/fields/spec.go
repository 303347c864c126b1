package fields

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nativeSpec is how machines are looked after, as a native template or Machine says it.
type nativeSpec struct {
	config   *machinev1.MachineConfiguration // never nil
	timeouts timeouts                        // what config means
	alone    bool                            // of a Machine without a set, which has no MachineHealthCheck
	inPlace  bool                            // the MachineDeployment updates in place
}

// clusterSpec is the same on Cluster API, where a MachineHealthCheck has a part of it.
type clusterSpec struct {
	spec     *clusterv1.MachineSpec
	checks   *clusterv1.MachineHealthCheckChecks // nil: there is no MachineHealthCheck
	timeouts timeouts                            // what checks mean
	defaults migration.Defaults                  // complete
}

// specTable has the fields of machines that templates and single Machines have in common.
var specTable = []row[*nativeSpec, *clusterSpec]{
	{
		native: "drainTimeout", clusterAPI: "deletion.nodeDrainTimeoutSeconds",
		toClusterAPI: func(n *nativeSpec, c *clusterSpec) {
			c.spec.Deletion.NodeDrainTimeoutSeconds = seconds(n.timeouts.drain)
		},
		toNative: func(c *clusterSpec, n *nativeSpec) {
			drain := objects.Value(c.spec.Deletion.NodeDrainTimeoutSeconds)
			if drain > 0 && *seconds(n.timeouts.drain) != drain {
				n.config.MachineDrainTimeout = unless(time.Duration(drain)*time.Second, c.defaults.DrainTimeout)
			}
		},
		leavesNative: func(n *nativeSpec) outcome {
			return replaced(fmt.Sprintf("%s becomes spec.deletion.nodeDrainTimeoutSeconds %d; after it Cluster API goes on to "+
				"delete the VM, without evicting by force first", n.timeouts.drain, *seconds(n.timeouts.drain)))
		},
		leavesClusterAPI: func(c *clusterSpec) outcome {
			if drain := objects.Value(c.spec.Deletion.NodeDrainTimeoutSeconds); drain > 0 {
				return replaced(fmt.Sprintf("%d becomes drainTimeout, after which pods are evicted by force", drain))
			}
			return lost(fmt.Sprintf("it drains for as long as it takes; natively pods are evicted by force after %s",
				c.defaults.DrainTimeout))
		},
	},
	{
		clusterAPI: "deletion.nodeVolumeDetachTimeoutSeconds",
		toClusterAPI: func(_ *nativeSpec, c *clusterSpec) {
			c.spec.Deletion.NodeVolumeDetachTimeoutSeconds = seconds(c.defaults.PvDetachTimeout)
		},
		leavesClusterAPI: func(c *clusterSpec) outcome {
			return when(c.spec.Deletion.NodeVolumeDetachTimeoutSeconds != nil,
				replaced("the manager's --machine-pv-detach-timeout counts for all pools"))
		},
	},
	{
		native: "healthTimeout", // timeoutSeconds of each condition of the MachineHealthCheck, see nodeConditions
		toNative: func(c *clusterSpec, n *nativeSpec) {
			if c.checks != nil && !c.timeouts.neverFails && *seconds(n.timeouts.health) != *seconds(c.timeouts.health) {
				n.config.MachineHealthTimeout = unless(c.timeouts.health, c.defaults.HealthTimeout)
			}
		},
		leavesNative: judgeHealthTimeout,
	},
	{
		native: "creationTimeout", // nodeStartupTimeoutSeconds of the MachineHealthCheck
		toClusterAPI: func(n *nativeSpec, c *clusterSpec) {
			if c.checks != nil {
				c.checks.NodeStartupTimeoutSeconds = seconds(max(n.timeouts.creation, minStartupTimeout))
			}
		},
		toNative: func(c *clusterSpec, n *nativeSpec) {
			if is := c.timeouts.creation; c.checks != nil && is > 0 &&
				*seconds(max(n.timeouts.creation, minStartupTimeout)) != *seconds(is) {
				n.config.MachineCreationTimeout = unless(is, c.defaults.CreationTimeout)
			}
		},
		leavesNative: func(n *nativeSpec) outcome {
			return when(!n.alone, replaced(fmt.Sprintf("%s becomes spec.checks.nodeStartupTimeoutSeconds %d of the "+
				"MachineHealthCheck", n.timeouts.creation, *seconds(max(n.timeouts.creation, minStartupTimeout)))))
		},
	},
	{
		native: "nodeConditions", // unhealthyNodeConditions of the MachineHealthCheck
		toClusterAPI: func(n *nativeSpec, c *clusterSpec) {
			if c.checks != nil {
				c.checks.UnhealthyNodeConditions = unhealthyConditions(n.timeouts)
			}
		},
		toNative: func(c *clusterSpec, n *nativeSpec) {
			list := strings.Join(c.timeouts.conditions, ",")
			if c.checks == nil || c.timeouts.neverFails || list == strings.Join(n.timeouts.conditions, ",") {
				return
			}
			if n.config.NodeConditions = &list; list == c.defaults.NodeConditions {
				n.config.NodeConditions = nil
			}
		},
		leavesNative: func(n *nativeSpec) outcome {
			return when(!n.alone, replaced("each becomes two of spec.checks.unhealthyNodeConditions of the "+
				"MachineHealthCheck, True and Unknown: "+strings.Join(n.timeouts.conditions, ", ")))
		},
	},
	{
		native: "disableHealthTimeout", // no unhealthyNodeConditions
		toNative: func(c *clusterSpec, n *nativeSpec) {
			if c.checks == nil || c.timeouts.neverFails == n.timeouts.neverFails {
				return
			}
			if n.config.DisableHealthTimeout = nil; c.timeouts.neverFails {
				n.config.DisableHealthTimeout = new(true)
			}
		},
		leavesNative: func(n *nativeSpec) outcome {
			return when(n.config.DisableHealthTimeout != nil,
				kept("the MachineHealthCheck looks at node conditions only if it is not true"))
		},
	},
	{native: "maxEvictRetries", leavesNative: func(n *nativeSpec) outcome {
		return when(n.config.MaxEvictRetries != nil, lost(retriesText))
	}},
	{native: "machinePreserveTimeout", leavesNative: func(n *nativeSpec) outcome {
		return when(n.config.MachinePreserveTimeout != nil, lost(preserveText))
	}},
	{native: "inPlaceUpdateTimeout", leavesNative: func(n *nativeSpec) outcome {
		if n.inPlace {
			return when(n.config.MachineInPlaceUpdateTimeout != nil,
				lost("updates in place are a runtime extension's on Cluster API"))
		}
		return when(n.config.MachineInPlaceUpdateTimeout != nil,
			replaced("has no effect without strategy InPlaceUpdate, and is left out"))
	}},
	{clusterAPI: "version", leavesClusterAPI: func(c *clusterSpec) outcome {
		return when(c.spec.Version != "", replaced("natively the image and the user data of a class say which version runs; "+
			"that is a label on no object"))
	}},
	{clusterAPI: "failureDomain", leavesClusterAPI: func(c *clusterSpec) outcome {
		return when(c.spec.FailureDomain != "", lost("natively the class says in which zone a VM is"))
	}},
	{clusterAPI: "readinessGates", leavesClusterAPI: func(c *clusterSpec) outcome {
		return when(len(c.spec.ReadinessGates) > 0, lost("the native API knows none"))
	}},
	{clusterAPI: "taints", leavesClusterAPI: func(c *clusterSpec) outcome {
		return when(len(c.spec.Taints) > 0,
			lost("only those of the MCMMachineTemplate's nodeTemplate are carried over; put them there first"))
	}},
	{clusterAPI: "minReadySeconds", leavesClusterAPI: func(c *clusterSpec) outcome {
		return when(objects.Value(c.spec.MinReadySeconds) > 0,
			replaced("becomes spec.minReadySeconds, which the native API ignores as MCM does"))
	}},
}

// What is lost in the same way by templates and by single Machines.
const (
	retriesText  = "Cluster API tries to evict until the drain timeout"
	preserveText = "Cluster API preserves no machines"
)

func judgeHealthTimeout(n *nativeSpec) outcome {
	switch {
	case n.alone:
		return replaced("no MachineHealthCheck is made for a Machine without a set: nobody replaces it on either API; its " +
			"conditions tell")
	case n.timeouts.neverFails:
		return replaced("disableHealthTimeout is true: the MachineHealthCheck looks at no node conditions")
	}
	return replaced(fmt.Sprintf("%s becomes timeoutSeconds %d of each condition of a MachineHealthCheck, which replaces "+
		"one machine after the other, and from %d machines on none while more than %s are unhealthy",
		n.timeouts.health, *seconds(n.timeouts.health), minMachinesForLimit, maxUnhealthy))
}

// unhealthyConditions are the conditions that make a node unhealthy: for MCM every listed
// one that is not False, and Ready unless it is True. None if a machine never fails.
func unhealthyConditions(t timeouts) (out []clusterv1.UnhealthyNodeCondition) {
	if t.neverFails {
		return nil
	}
	add := func(kind string, statuses ...corev1.ConditionStatus) {
		for _, status := range statuses {
			out = append(out, clusterv1.UnhealthyNodeCondition{
				Type: corev1.NodeConditionType(kind), Status: status, TimeoutSeconds: seconds(t.health),
			})
		}
	}
	add(string(corev1.NodeReady), corev1.ConditionFalse, corev1.ConditionUnknown)
	seen := []string{string(corev1.NodeReady)}
	for _, kind := range t.conditions {
		if !slices.Contains(seen, kind) {
			seen = append(seen, kind)
			add(kind, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
	}
	return out
}

// timeoutsOfChecks is the reverse. What checks do not tell is zero.
func timeoutsOfChecks(checks clusterv1.MachineHealthCheckChecks) timeouts {
	t := timeouts{
		creation:   time.Duration(objects.Value(checks.NodeStartupTimeoutSeconds)) * time.Second,
		neverFails: true,
	}
	for _, condition := range checks.UnhealthyNodeConditions {
		t.neverFails = false
		t.health = max(t.health, time.Duration(objects.Value(condition.TimeoutSeconds))*time.Second)
		if condition.Type != corev1.NodeReady && !slices.Contains(t.conditions, string(condition.Type)) {
			t.conditions = append(t.conditions, string(condition.Type))
		}
	}
	return t
}

// nativeSpec reads a configuration, nil is an empty one, and the annotations that count for it.
func (c *toClusterAPI) nativeSpec(config *machinev1.MachineConfiguration, annotations map[string]string) *nativeSpec {
	have := objects.Value(config)
	d := c.Native.Deployment
	return &nativeSpec{
		config: &have, timeouts: timeoutsOf(config, annotations, c.options.Defaults),
		alone:   c.Pool.Kind == migration.KindMachine,
		inPlace: d != nil && d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType,
	}
}

// spec converts a configuration into a MachineSpec, and into checks unless they are nil.
func (c *toClusterAPI) spec(n *nativeSpec, into *clusterv1.MachineSpec, checks *clusterv1.MachineHealthCheckChecks) {
	convert(specTable, n, &clusterSpec{spec: into, checks: checks, defaults: c.options.Defaults.Complete()})
}

// judgeConfiguration says what becomes of timeouts and limits.
func (c *toClusterAPI) judgeConfiguration(object, prefix string, config *machinev1.MachineConfiguration,
	annotations map[string]string,
) {
	c.findings = append(c.findings, judgeNative(specTable, object, prefix, c.nativeSpec(config, annotations))...)
}

// judgeSpec says what becomes of what templates and Machines have in common.
func (c *toNative) judgeSpec(object, prefix string, spec *clusterv1.MachineSpec) {
	view := &clusterSpec{spec: spec, defaults: c.options.Defaults.Complete()}
	c.findings = append(c.findings, judgeClusterAPI(specTable, object, prefix, view)...)
}

// configuration brings timeouts and limits up to date with what Cluster API says.
// Those that mean the same there stay as they are written.
func (c *toNative) configuration(have *machinev1.MachineConfiguration,
	spec *clusterv1.MachineSpec,
) *machinev1.MachineConfiguration {
	out := objects.Value(have.DeepCopy())
	from := &clusterSpec{spec: spec, defaults: c.options.Defaults.Complete()}
	if check := c.ClusterAPI.HealthCheck; check != nil {
		from.checks, from.timeouts = &check.Spec.Checks, timeoutsOfChecks(check.Spec.Checks)
	}
	convertBack(specTable, from, &nativeSpec{config: &out, timeouts: timeoutsOf(have, nil, c.options.Defaults)})
	if out == (machinev1.MachineConfiguration{}) {
		return nil
	}
	return &out
}

// unless is t, or nil where that is the manager's own.
func unless(t, managers time.Duration) *metav1.Duration {
	if t == managers {
		return nil
	}
	return &metav1.Duration{Duration: t}
}

// timeouts are the timeouts of native machines that mean something on both APIs:
// what the machines say, else the flags of their manager.
type timeouts struct {
	drain, health, creation time.Duration

	conditions []string // that make a node unhealthy unless they are False
	neverFails bool
}

// timeoutsOf reads a configuration, nil is an empty one, and the annotation that
// overrides its creation timeout, as the native API does.
func timeoutsOf(c *machinev1.MachineConfiguration, annotations map[string]string, d migration.Defaults) timeouts {
	config, d := objects.Value(c), d.Complete()
	l := timeouts{
		drain:      duration(config.MachineDrainTimeout, d.DrainTimeout),
		health:     duration(config.MachineHealthTimeout, d.HealthTimeout),
		creation:   duration(config.MachineCreationTimeout, d.CreationTimeout),
		neverFails: objects.Value(config.DisableHealthTimeout),
	}
	list := d.NodeConditions
	if config.NodeConditions != nil {
		list = *config.NodeConditions
	}
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			l.conditions = append(l.conditions, item)
		}
	}
	if t, err := time.ParseDuration(annotations[machinev1.EffectiveCreationTimeoutAnnotation]); err == nil && t >= 0 {
		l.creation = t
	}
	return l
}

// duration returns d, else fallback if d is nil: 0 and less are no time at all.
func duration(d *metav1.Duration, fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return max(d.Duration, 0)
}

// seconds is d in whole seconds, rounded up: Cluster API takes 0 for never.
func seconds(d time.Duration) *int32 {
	n := int64(math.Ceil(d.Seconds()))
	n = min(max(n, 1), math.MaxInt32)
	return new(int32(n)) // #nosec G115 -- bounded above
}

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
