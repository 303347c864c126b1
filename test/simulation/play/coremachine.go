package play

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// What the health check of every MachineDeployment asks for, and how long a
// drain may take.
const (
	startupTimeout   = 20 * time.Minute
	unhealthyTimeout = 5 * time.Minute
	coreDrain        = 20 * time.Minute
)

// machine brings a Machine and its objects one step on.
func (c *core) machine(cluster *clusterv1.Cluster, m *clusterv1.Machine) {
	infra, made := find[*infrav1.MCMMachine](c.home.server, m.Spec.InfrastructureRef.Name)
	config, known := find[*bootstrapv1.MCMConfig](c.home.server, m.Spec.Bootstrap.ConfigRef.Name)
	if !m.DeletionTimestamp.IsZero() {
		c.removeMachine(cluster, m)
		return
	}
	if metav1.GetControllerOf(m) == nil || !controllerutil.ContainsFinalizer(m, clusterv1.MachineFinalizer) {
		m = put(c, m, func(o *clusterv1.Machine) {
			controllerutil.AddFinalizer(o, clusterv1.MachineFinalizer)
			if metav1.GetControllerOf(o) == nil {
				belong(o, cluster.Name, clusterRef(cluster, false))
			}
		})
	}
	if made && infra.DeletionTimestamp.IsZero() {
		infra = own(c, infra, m)
	}
	if known && config.DeletionTimestamp.IsZero() {
		config = own(c, config, m)
	}
	secret, providerID := m.Spec.Bootstrap.DataSecretName, m.Spec.ProviderID
	if known && yes(config.Status.Initialization.DataSecretCreated) && config.Status.DataSecretName != "" {
		secret = &config.Status.DataSecretName
	}
	if made && yes(infra.Status.Initialization.Provisioned) && infra.Spec.ProviderID != "" {
		providerID = infra.Spec.ProviderID
	}
	if providerID != m.Spec.ProviderID || !ptr.Equal(secret, m.Spec.Bootstrap.DataSecretName) {
		m = put(c, m, func(o *clusterv1.Machine) {
			o.Spec.Bootstrap.DataSecretName, o.Spec.ProviderID = secret, providerID
		})
	}
	m = c.look(m)
	c.remedy(cluster, m)
}

// own makes a Machine the one that controls an object, in the place of its set.
func own[T client.Object](c *core, o T, m *clusterv1.Machine) T {
	ofSet := func(r metav1.OwnerReference) bool { return r.Kind == "MachineSet" }
	ref := metav1.NewControllerRef(m, clusterv1.GroupVersion.WithKind("Machine"))
	if belongs(o, m.Spec.ClusterName, ref) && !slices.ContainsFunc(o.GetOwnerReferences(), ofSet) {
		return o
	}
	return put(c, o, func(o T) {
		o.SetOwnerReferences(slices.DeleteFunc(o.GetOwnerReferences(), ofSet))
		belong(o, m.Spec.ClusterName, ref)
	})
}

// node is the Node of a Machine; nil if there is none.
func (c *core) node(m *clusterv1.Machine) *corev1.Node {
	if m.Spec.ProviderID == "" {
		return nil
	}
	for _, n := range all[*corev1.Node](c.world.Target) {
		if n.Spec.ProviderID == m.Spec.ProviderID {
			return n
		}
	}
	return nil
}

// look writes down how the Node is.
func (c *core) look(m *clusterv1.Machine) *clusterv1.Machine {
	if c.world.isDown(c.world.Target) {
		return m
	}
	node := c.node(m)
	return tell(c, m, func(o *clusterv1.Machine) {
		o.Status.ObservedGeneration = o.Generation
		if o.Spec.ProviderID != "" {
			o.Status.Initialization.InfrastructureProvisioned = new(true)
		}
		healthy := metav1.Condition{
			Type: clusterv1.MachineNodeHealthyCondition, Status: metav1.ConditionFalse,
			Reason: "NodeNotHealthy",
		}
		if node != nil {
			o.Status.NodeRef.Name = node.Name
			if isReady(node) && node.DeletionTimestamp.IsZero() {
				healthy.Status, healthy.Reason = metav1.ConditionTrue, "NodeHealthy"
			}
		}
		healthy.LastTransitionTime = metav1.NewTime(c.world.now.Truncate(time.Second))
		conditions.Set(o, healthy)
	})
}

// remedy deletes a Machine of a set whose Node does not come, has gone, or has
// been unhealthy for too long: what a MachineHealthCheck does.
func (c *core) remedy(cluster *clusterv1.Cluster, m *clusterv1.Machine) {
	down := c.world.isDown(c.world.Target)
	if !unready(m) || down || !cluster.DeletionTimestamp.IsZero() {
		if down {
			c.wakeIn(10 * time.Second)
		}
		delete(c.unwell, m.UID)
		return
	}
	if metav1.GetControllerOf(m) == nil {
		return
	}
	if _, known := c.unwell[m.UID]; !known {
		c.unwell[m.UID] = c.world.now
	}
	due := m.CreationTimestamp.Add(startupTimeout)
	if m.Status.NodeRef.IsDefined() {
		due = c.unwell[m.UID].Add(unhealthyTimeout)
		if c.node(m) == nil {
			due = c.world.now
		}
	}
	if wait := due.Sub(c.world.now); wait > 0 {
		c.wakeIn(wait)
		return
	}
	c.remove(m)
}

// removeMachine drains the Node, and then has the infrastructure, the boot data
// and the Node go, one after the other. A Cluster that goes skips what is about
// Nodes.
func (c *core) removeMachine(cluster *clusterv1.Cluster, m *clusterv1.Machine) {
	about := m.Status.NodeRef.IsDefined() && cluster.DeletionTimestamp.IsZero()
	infra, made := find[*infrav1.MCMMachine](c.home.server, m.Spec.InfrastructureRef.Name)
	if made {
		if about && infra.DeletionTimestamp.IsZero() && !c.drain(m) {
			return
		}
		c.remove(infra)
		return
	}
	if config, known := find[*bootstrapv1.MCMConfig](c.home.server, m.Spec.Bootstrap.ConfigRef.Name); known {
		c.remove(config)
		c.wake()
		return
	}
	if node := c.node(m); about && node != nil {
		if c.world.isDown(c.world.Target) {
			c.wakeIn(10 * time.Second)
			return
		}
		_ = c.world.Target.Delete(coreName, c.world.Target.KindOf(node), client.ObjectKeyFromObject(node),
			&metav1.DeleteOptions{})
	}
	delete(c.drained, m.UID)
	delete(c.unwell, m.UID)
	put(c, m, func(o *clusterv1.Machine) { controllerutil.RemoveFinalizer(o, clusterv1.MachineFinalizer) })
}

// drain reports whether the Node is drained, or that took too long.
func (c *core) drain(m *clusterv1.Machine) bool {
	if c.drained[m.UID].IsZero() {
		c.drained[m.UID] = c.world.now
	}
	if c.world.now.Sub(c.drained[m.UID]) > coreDrain {
		return true
	}
	node := c.node(m)
	if node == nil {
		return true
	}
	target := c.world.Target
	if c.world.isDown(target) {
		c.wakeIn(10 * time.Second)
		return false
	}
	if !node.Spec.Unschedulable {
		cordoned := node.DeepCopy()
		cordoned.Spec.Unschedulable = true
		_, _ = target.Update(coreName, cordoned, false)
	}
	left := 0
	for _, p := range all[*corev1.Pod](target) {
		if p.Spec.NodeName != node.Name {
			continue
		}
		left++
		if p.DeletionTimestamp.IsZero() {
			_ = target.Eviction(coreName, client.ObjectKeyFromObject(p), &policyv1.Eviction{})
		}
	}
	if left > 0 {
		c.wakeIn(10 * time.Second)
	}
	return left == 0
}
