package fields

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/migration"
	"github.com/capmcm/cluster-api-provider-mcm/migration/objects"
)

// judgeDeployment says what becomes of each field of a MachineDeployment of
// Cluster API.
func (c *toNative) judgeDeployment(d *clusterv1.MachineDeployment) {
	object := objects.Name(machinev1.MachineDeploymentKind, d)
	tell := func(level migration.Level, field, text string) {
		c.find(migration.Finding{Level: level, Object: object, Field: field, Text: text})
	}
	tell(migration.Kept, "spec.replicas", fmt.Sprintf("stays %d", objects.Value(d.Spec.Replicas)))
	if d.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType && !c.keepsStrategy(d) {
		tell(migration.Lost, "spec.rollout.strategy.type",
			"OnDelete becomes RollingUpdate with spec.paused: a new template replaces nothing, also not a machine that is "+
				"deleted, until it is unpaused")
	} else {
		tell(migration.Kept, "spec.rollout.strategy", "becomes spec.strategy")
	}
	if !d.Spec.Rollout.After.IsZero() {
		tell(migration.Lost, "spec.rollout.after", "the native API rolls only for a new template")
	}
	if d.Spec.MachineNaming.Template != "" {
		tell(migration.Lost, "spec.machineNaming.template", "the native API names machines itself")
	}
	if d.Spec.Deletion.Order == clusterv1.NewestMachineSetDeletionOrder {
		tell(migration.Lost, "spec.deletion.order", newestText)
	}
	if n := d.Spec.Remediation.MaxInFlight; n != nil && n.String() != "1" {
		tell(migration.Replaced, "spec.remediation.maxInFlight", "the native API replaces one machine after the other")
	}
	c.judgeAutoscaler(object, d.Annotations)
	c.judgeTemplate(object, &d.Spec.Template)
	c.judgeHealth(object)
	c.judgeFinalizers(object, d)
}

const newestText = "the native API deletes the oldest of equal machines first"

// judgeSet does so for a MachineSet that belongs to no MachineDeployment.
func (c *toNative) judgeSet(s *clusterv1.MachineSet) {
	object := objects.Name(machinev1.MachineSetKind, s)
	tell := func(level migration.Level, field, text string) {
		c.find(migration.Finding{Level: level, Object: object, Field: field, Text: text})
	}
	tell(migration.Kept, "spec.replicas", fmt.Sprintf("stays %d", objects.Value(s.Spec.Replicas)))
	if s.Spec.MachineNaming.Template != "" {
		tell(migration.Lost, "spec.machineNaming.template", "the native API names machines itself")
	}
	if s.Spec.Deletion.Order == clusterv1.NewestMachineSetDeletionOrder {
		tell(migration.Lost, "spec.deletion.order", newestText)
	}
	c.judgeAutoscaler(object, s.Annotations)
	c.judgeTemplate(object, &s.Spec.Template)
	c.judgeHealth(object)
	c.judgeFinalizers(object, s)
}

// judgeAutoscaler is about what autoscalers read from a pool.
func (c *toNative) judgeAutoscaler(object string, annotations map[string]string) {
	for _, key := range objects.Keys(annotations) {
		f := migration.Finding{Level: migration.Kept, Object: object, Field: "metadata.annotations[" + key + "]"}
		switch {
		case strings.HasPrefix(key, ClusterAPIBounds):
			f.Text = "becomes " + nativeBounds + strings.TrimPrefix(key, ClusterAPIBounds) +
				"; the pool has neither while it is between APIs"
		case strings.HasPrefix(key, ClusterAPIScaling):
			f.Text = "becomes " + nativeScaling + strings.TrimPrefix(key, ClusterAPIScaling)
		default:
			continue
		}
		c.find(f)
	}
}

// judgeMachine is about what a Machine does not have from its set.
func (c *toNative) judgeMachine(m *clusterv1.Machine, ofSet bool) {
	object := objects.Name(machinev1.MachineKind, m)
	c.judgeFinalizers(object, m)
	if !ofSet {
		c.judgeSpec(object, "spec.", &m.Spec)
	}
}

// judgeFinalizers is about who else waits for an object's end: finish removes it.
func (c *toNative) judgeFinalizers(object string, o metav1.Object) {
	known := []string{
		clusterv1.MachineFinalizer, clusterv1.MachineSetFinalizer, clusterv1.MachineDeploymentFinalizer,
		clusterv1.MachineSetTopologyFinalizer,
		clusterv1.MachineDeploymentTopologyFinalizer, metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents,
	}
	for _, f := range o.GetFinalizers() {
		if !slices.Contains(known, f) {
			c.find(migration.Finding{
				Level: migration.Lost, Object: object, Field: "metadata.finalizers[" + f + "]",
				Text: "it is somebody else's, who is not asked when finish removes the object; the copy does not have it",
			})
		}
	}
}

// keepsStrategy reports whether the native strategy is the one that became this one.
func (c *toNative) keepsStrategy(d *clusterv1.MachineDeployment) bool {
	if c.Native.Deployment == nil {
		return false
	}
	_, paused := strategyToNative(d.Spec.Rollout.Strategy, c.Native.Deployment.Spec.Strategy)
	return !paused
}

// judgeTemplate is about the template of the Machines.
func (c *toNative) judgeTemplate(object string, t *clusterv1.MachineTemplateSpec) {
	const prefix = "spec.template.spec."
	tell := func(level migration.Level, field, text, remedy string) {
		c.find(migration.Finding{Level: level, Object: object, Field: prefix + field, Text: text, Remedy: remedy})
	}
	spec := &t.Spec
	class := ""
	if m := c.templates[spec.InfrastructureRef.Name]; m == nil || spec.InfrastructureRef.Kind != objects.KindMCMMachineTemplate {
		tell(migration.Blocked, "infrastructureRef", fmt.Sprintf("%s %s does not exist, or is not this provider's",
			spec.InfrastructureRef.Kind, spec.InfrastructureRef.Name), "name a MCMMachineTemplate")
	} else {
		class = m.Spec.Template.Spec.MachineClassRef.Name
		tell(migration.Kept, "infrastructureRef", "MachineClass "+class+
			" and the node template become spec.class and spec.nodeTemplate", "")
	}
	if !c.bootsFromClass(spec.Bootstrap, class) {
		tell(migration.Lost, "bootstrap", "new native machines boot with the user data of their MachineClass, whatever boots them now",
			"")
	}
	c.judgeSpec(object, prefix, spec)
}

// judgeSpec is about what templates and Machines have in common.
func (c *toNative) judgeSpec(object, prefix string, spec *clusterv1.MachineSpec) {
	tell := func(level migration.Level, field, text string) {
		c.find(migration.Finding{Level: level, Object: object, Field: prefix + field, Text: text})
	}
	if spec.Version != "" {
		tell(migration.Replaced, "version", "natively the image and the user data of a class say which version runs; that is a label "+
			"on no object")
	}
	for _, field := range []struct {
		name string
		set  bool
		text string
	}{
		{"failureDomain", spec.FailureDomain != "", "natively the class says in which zone a VM is"},
		{"readinessGates", len(spec.ReadinessGates) > 0, "the native API knows none"},
		{"taints", len(spec.Taints) > 0, "only those of the MCMMachineTemplate's nodeTemplate are carried over; put them " +
			"there first"},
	} {
		if field.set {
			tell(migration.Lost, field.name, field.text)
		}
	}
	if objects.Value(spec.MinReadySeconds) > 0 {
		tell(migration.Replaced, "minReadySeconds", "becomes spec.minReadySeconds, which the native API ignores as MCM does")
	}
	c.judgeDeletion(object, prefix, spec.Deletion)
}

func (c *toNative) judgeDeletion(object, prefix string, d clusterv1.MachineDeletionSpec) {
	tell := func(field, text string) {
		c.find(migration.Finding{Level: migration.Replaced, Object: object, Field: prefix + "deletion." + field, Text: text})
	}
	if drain := objects.Value(d.NodeDrainTimeoutSeconds); drain > 0 {
		tell("nodeDrainTimeoutSeconds", fmt.Sprintf("%d becomes drainTimeout, after which pods are evicted by force", drain))
	} else {
		c.find(migration.Finding{
			Level: migration.Lost, Object: object, Field: prefix + "deletion.nodeDrainTimeoutSeconds",
			Text: fmt.Sprintf("it drains for as long as it takes; natively pods are evicted by force after %s",
				c.options.Defaults.Complete().DrainTimeout),
		})
	}
	if d.NodeVolumeDetachTimeoutSeconds != nil {
		tell("nodeVolumeDetachTimeoutSeconds", "the manager's --machine-pv-detach-timeout counts for all pools")
	}
}

// bootsFromClass reports whether new machines boot with the user data of their class.
func (c *toNative) bootsFromClass(b clusterv1.Bootstrap, class string) bool {
	if b.ConfigRef.Kind != objects.KindMCMConfigTemplate {
		return false
	}
	var t *bootstrapv1.MCMConfigTemplate
	if t = objects.Find(c.ClusterAPI.ConfigTemplates, b.ConfigRef.Name); t == nil {
		return false
	}
	ref := t.Spec.Template.Spec.MachineClassRef
	return ref != nil && ref.Name == class
}

// judgeHealth is about the pool's MachineHealthCheck.
func (c *toNative) judgeHealth(object string) {
	check := c.ClusterAPI.HealthCheck
	if check == nil {
		c.find(migration.Finding{
			Level: migration.Replaced, Object: object,
			Text: "it has no MachineHealthCheck; natively machines are replaced when the health or creation timeout has passed",
		})
		return
	}
	object = objects.Name(objects.KindHealthCheck, check)
	tell := func(level migration.Level, field, text string) {
		c.find(migration.Finding{Level: level, Object: object, Field: field, Text: text})
	}
	tell(migration.Replaced, "spec.checks", "becomes healthTimeout, creationTimeout and nodeConditions of the machines; the "+
		"longest timeout counts for all conditions, and Unknown for unhealthy")
	if len(check.Spec.Checks.UnhealthyMachineConditions) > 0 {
		tell(migration.Lost, "spec.checks.unhealthyMachineConditions", "natively only conditions of the node count")
	}
	if check.Spec.Remediation.TemplateRef.IsDefined() {
		tell(migration.Lost, "spec.remediation.templateRef", "natively an unhealthy machine is replaced")
	}
	trigger := check.Spec.Remediation.TriggerIf
	if trigger.UnhealthyInRange != "" || trigger.UnhealthyLessThanOrEqualTo != nil {
		tell(migration.Replaced, "spec.remediation.triggerIf", "the native API waits while the nodes of a zone are lost together")
	}
}
