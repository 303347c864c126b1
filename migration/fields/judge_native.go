package fields

import (
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/migration"
	"github.com/capmcm/cluster-api-provider-mcm/migration/objects"
)

// judgeDeployment says what becomes of each field of a MachineDeployment.
func (c *toClusterAPI) judgeDeployment(d *machinev1.MachineDeployment) {
	object := objects.Name(machinev1.MachineDeploymentKind, d)
	tell := func(level migration.Level, field, text string) {
		c.find(migration.Finding{Level: level, Object: object, Field: field, Text: text})
	}
	tell(migration.Kept, "spec.replicas", fmt.Sprintf("stays %d", d.Spec.Replicas))
	c.findings = append(c.findings, judgeStrategy(object, d.Spec.Strategy)...)
	if d.Spec.MinReadySeconds > 0 {
		tell(migration.Replaced, "spec.minReadySeconds", minReadyText(d.Spec.MinReadySeconds))
	}
	if d.Spec.Paused {
		tell(migration.Kept, "spec.paused", "stays: no rollouts, but scaling")
	}
	if d.Spec.ProgressDeadlineSeconds != nil {
		tell(migration.Lost, "spec.progressDeadlineSeconds",
			"Cluster API has no deadline for a rollout; condition RollingOut tells since when one lasts")
	}
	if d.Spec.RevisionHistoryLimit != nil {
		tell(migration.Lost, "spec.revisionHistoryLimit",
			"Cluster API deletes old MachineSets when a rollout is over; a template to go back to is one that you keep")
	}
	c.judgePreservation(object, d.Spec.AutoPreserveFailedMachineMax)
	c.judgeAutoscaler(object, d.Annotations)
	c.judgeConfiguration(d, "spec.template.spec.", d.Spec.Template.Spec.MachineConfiguration, d.Annotations)
	c.judgeTemplate(object, &d.Spec.Template)
	c.judgeOwners(object, d)
}

// judgeSet does so for a MachineSet that belongs to no MachineDeployment.
func (c *toClusterAPI) judgeSet(s *machinev1.MachineSet) {
	object := objects.Name(machinev1.MachineSetKind, s)
	c.find(migration.Finding{Level: migration.Kept, Object: object, Field: "spec.replicas", Text: fmt.Sprintf("stays %d", s.Spec.Replicas)})
	if s.Spec.MinReadySeconds > 0 {
		c.find(migration.Finding{
			Level: migration.Replaced, Object: object, Field: "spec.minReadySeconds",
			Text: minReadyText(s.Spec.MinReadySeconds),
		})
	}
	c.judgePreservation(object, s.Spec.AutoPreserveFailedMachineMax)
	c.judgeAutoscaler(object, s.Annotations)
	c.judgeConfiguration(s, "spec.template.spec.", s.Spec.Template.Spec.MachineConfiguration, s.Annotations)
	c.judgeTemplate(object, &s.Spec.Template)
	c.judgeOwners(object, s)
}

func minReadyText(seconds int32) string {
	return fmt.Sprintf("becomes spec.template.spec.minReadySeconds; MCM ignores it, Cluster API counts a machine as "+
		"available only %d seconds after it is ready", seconds)
}

// judgeOwners is about who else counts on an object: finish removes it.
func (c *toClusterAPI) judgeOwners(object string, o metav1.Object) {
	for _, f := range o.GetFinalizers() {
		if f != machinev1.Finalizer && f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents {
			c.find(migration.Finding{
				Level: migration.Lost, Object: object, Field: "metadata.finalizers[" + f + "]",
				Text: "it is somebody else's, who is not asked when finish removes the object; the copy does not have it",
			})
		}
	}
	for _, ref := range o.GetOwnerReferences() {
		if !objects.Value(ref.Controller) {
			c.find(migration.Finding{
				Level: migration.Lost, Object: object, Field: "metadata.ownerReferences",
				Text: fmt.Sprintf("the copy does not belong to %s %s, and is not deleted with it", ref.Kind, ref.Name),
			})
		}
	}
}

func (c *toClusterAPI) judgePreservation(object string, most int32) {
	if most > 0 {
		c.find(migration.Finding{
			Level: migration.Lost, Object: object, Field: "spec.autoPreserveFailedMachineMax",
			Text: "Cluster API keeps no failed machines for examination; annotation cluster.x-k8s.io/skip-remediation on a " +
				"Machine keeps that one",
		})
	}
}

// judgeAutoscaler is about what autoscalers read from a pool.
func (c *toClusterAPI) judgeAutoscaler(object string, annotations map[string]string) {
	for _, key := range objects.Keys(annotations) {
		f := migration.Finding{Object: object, Field: "metadata.annotations[" + key + "]"}
		switch {
		case strings.HasPrefix(key, nativeBounds):
			f.Level, f.Text = migration.Kept, "becomes "+ClusterAPIBounds+strings.TrimPrefix(key, nativeBounds)+
				"; the pool has neither while it is between APIs"
		case strings.HasPrefix(key, nativeScaling):
			f.Level, f.Text = migration.Kept, "becomes "+ClusterAPIScaling+strings.TrimPrefix(key, nativeScaling)
		case gardenerOptions()[key] != "":
			f.Level, f.Text = migration.Replaced, "stays for Gardener's autoscaler; upstream's reads "+gardenerOptions()[key]+
				", which gets the same value"
		case key == machinev1.ProviderIDFormAnnotation:
			f.Level, f.Text = migration.Replaced, "providerIDs have the Node's form on Cluster API anyway; after finish and a way back "+
				"it has to be set again"
		case key == machinev1.OfferedCapacityAnnotation:
			f.Level, f.Text = migration.Replaced, "status.capacity of the MCMMachineTemplate tells what a node will be like; labels and "+
				"taints stay as annotations"
		case key == machinev1.EffectiveCreationTimeoutAnnotation:
			f.Level, f.Text = migration.Replaced, "becomes spec.checks.nodeStartupTimeoutSeconds of the MachineHealthCheck"
		default:
			continue
		}
		c.find(f)
	}
}

// What is lost in the same way by templates and by single Machines.
const (
	retriesText  = "Cluster API tries to evict until the drain timeout"
	preserveText = "Cluster API preserves no machines"
)

// judgeConfiguration says what becomes of timeouts and limits.
func (c *toClusterAPI) judgeConfiguration(o metav1.Object, prefix string, config *machinev1.MachineConfiguration,
	annotations map[string]string,
) {
	kind := machinev1.MachineKind
	if prefix != "spec." {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1.")
	}
	object := objects.Name(kind, o)
	tell := func(level migration.Level, field, text string) {
		c.find(migration.Finding{Level: level, Object: object, Field: prefix + field, Text: text})
	}
	l, have := timeoutsOf(config, annotations, c.options.Defaults), objects.Value(config)
	tell(migration.Replaced, "drainTimeout", fmt.Sprintf("%s becomes spec.deletion.nodeDrainTimeoutSeconds %d; after it Cluster "+
		"API goes on to delete the VM, without evicting by force first", l.drain, *seconds(l.drain)))
	if c.Pool.Kind == migration.KindMachine {
		tell(migration.Replaced, "healthTimeout", "no MachineHealthCheck is made for a Machine without a set: nobody replaces it on "+
			"either API; its conditions tell")
	} else {
		tell(migration.Replaced, "healthTimeout", healthText(l))
		tell(migration.Replaced, "creationTimeout", fmt.Sprintf("%s becomes spec.checks.nodeStartupTimeoutSeconds %d of the "+
			"MachineHealthCheck", l.creation, *seconds(max(l.creation, minStartupTimeout))))
		tell(migration.Replaced, "nodeConditions", "each becomes two of spec.checks.unhealthyNodeConditions of the "+
			"MachineHealthCheck, True and Unknown: "+strings.Join(l.conditions, ", "))
	}
	if have.DisableHealthTimeout != nil {
		tell(migration.Kept, "disableHealthTimeout", "the MachineHealthCheck looks at node conditions only if it is not true")
	}
	if have.MaxEvictRetries != nil {
		tell(migration.Lost, "maxEvictRetries", retriesText)
	}
	if have.MachinePreserveTimeout != nil {
		tell(migration.Lost, "machinePreserveTimeout", preserveText)
	}
	if have.MachineInPlaceUpdateTimeout != nil {
		c.judgeInPlaceTimeout(object, prefix)
	}
}

func (c *toClusterAPI) judgeInPlaceTimeout(object, prefix string) {
	f := migration.Finding{
		Level: migration.Replaced, Object: object, Field: prefix + "inPlaceUpdateTimeout",
		Text: "has no effect without strategy InPlaceUpdate, and is left out",
	}
	if d := c.Native.Deployment; d != nil && d.Spec.Strategy.Type == machinev1.InPlaceUpdateStrategyType {
		f.Level, f.Text = migration.Lost, "updates in place are a runtime extension's on Cluster API"
	}
	c.find(f)
}

func healthText(l timeouts) string {
	if l.neverFails {
		return "disableHealthTimeout is true: the MachineHealthCheck looks at no node conditions"
	}
	return fmt.Sprintf("%s becomes timeoutSeconds %d of each condition of a MachineHealthCheck, which replaces one "+
		"machine after the other, and from %d machines on none while more than %s are unhealthy",
		l.health, *seconds(l.health), minMachinesForLimit, maxUnhealthy)
}

// judgeTemplate is about the rest of a machine template.
func (c *toClusterAPI) judgeTemplate(object string, t *machinev1.MachineTemplateSpec) {
	c.judgeClass(object, "spec.template.spec.class", t.Spec.Class,
		"becomes machineClassRef of a MCMMachineTemplate, and of a MCMConfigTemplate for the user data of new machines")
	if t.Spec.ProviderID != "" {
		c.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: "spec.template.spec.providerID",
			Text: "every machine of this pool would be given the same VM", Remedy: "remove it; that rolls the pool",
		})
	}
	if meta := t.ObjectMeta; meta.Name != "" || meta.GenerateName != "" || len(meta.Finalizers) > 0 ||
		len(meta.OwnerReferences) > 0 {
		c.find(migration.Finding{
			Level: migration.Lost, Object: object, Field: "spec.template.metadata",
			Text: "only labels and annotations of a template mean something to Cluster API",
		})
	}
	for _, key := range objects.Keys(t.Annotations) {
		if strings.HasPrefix(key, machinev1.OurPrefix) {
			c.find(migration.Finding{
				Level: migration.Blocked, Object: object, Field: "spec.template.metadata.annotations[" + key + "]",
				Text: "every machine of this pool would get it", Remedy: "remove it; that rolls the pool",
			})
		}
	}
	c.judgeNodeTemplate(object, "spec.template.spec.nodeTemplate", &t.Spec.NodeTemplateSpec)
}

func (c *toClusterAPI) judgeClass(object, field string, class machinev1.ClassSpec, text string) {
	c.find(migration.Finding{Level: migration.Kept, Object: object, Field: field, Text: text})
	if class.Kind != machinev1.MachineClassKind {
		c.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: field + ".kind",
			Text: fmt.Sprintf("%q is not MachineClass", class.Kind), Remedy: "set it to MachineClass",
		})
	}
}

// MaxTaints is how many the CRD takes.
const MaxTaints = 64

func (c *toClusterAPI) judgeNodeTemplate(object, field string, t *machinev1.NodeTemplateSpec) {
	if len(t.Spec.Taints) > MaxTaints {
		c.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: field + ".spec.taints",
			Text: fmt.Sprintf("a MCMMachine has %d taints at most, these are %d", MaxTaints,
				len(t.Spec.Taints)), Remedy: "remove some",
		})
	}
	if len(t.Labels)+len(t.Annotations)+len(t.Spec.Taints) > 0 {
		c.find(migration.Finding{
			Level: migration.Kept, Object: object, Field: field,
			Text: "labels, annotations and taints become nodeTemplate of MCMMachines and their template",
		})
	}
	rest := t.DeepCopy()
	rest.Labels, rest.Annotations, rest.Spec.Taints = nil, nil, nil
	if !apiequality.Semantic.DeepEqual(*rest, machinev1.NodeTemplateSpec{}) {
		c.find(migration.Finding{
			Level: migration.Replaced, Object: object, Field: field,
			Text: "what is neither a label, an annotation nor a taint has no effect on either API, and is left out",
		})
	}
}

// judgeMachine says what becomes of what is special to one Machine.
func (c *toClusterAPI) judgeMachine(m *machinev1.Machine) {
	object := objects.Name(machinev1.MachineKind, m)
	priority, there := m.Annotations[machinev1.PriorityAnnotation]
	field := "metadata.annotations[" + machinev1.PriorityAnnotation + "]"
	switch {
	case deletedFirst(m):
		c.find(migration.Finding{
			Level: migration.Replaced, Object: object, Field: field,
			Text: "to be deleted first; becomes the annotation cluster.x-k8s.io/delete-machine",
		})
	case there && priority != machinev1.DefaultPriority:
		c.find(migration.Finding{
			Level: migration.Lost, Object: object, Field: field,
			Text: fmt.Sprintf("%q has no counterpart: Cluster API knows only machines to be deleted first, and the oldest "+
				"first among the others", priority),
		})
	}
	if m.Labels[machinev1.ForceDrainLabel] == "True" {
		c.find(migration.Finding{
			Level: migration.Lost, Object: object, Field: "metadata.labels[" + machinev1.ForceDrainLabel + "]",
			Text: "Cluster API evicts no pod by force: it drains until the drain timeout",
		})
	}
	c.judgeOwners(object, m)
	if set := c.Native.SetOf(m); set >= 0 {
		c.judgeDifference(object, m, &c.Native.Sets[set])
	}
}

// judgeDifference is about settings of a Machine that its set does not have: Cluster
// API gives all machines of a set those of the set.
func (c *toClusterAPI) judgeDifference(object string, m *machinev1.Machine, s *machinev1.MachineSet) {
	own := timeoutsOf(m.Spec.MachineConfiguration, m.Annotations, c.options.Defaults)
	sets := timeoutsOf(s.Spec.Template.Spec.MachineConfiguration, s.Annotations, c.options.Defaults)
	for _, field := range []struct {
		name      string
		different bool
	}{
		{"spec.drainTimeout", own.drain != sets.drain},
		{"spec.healthTimeout", own.health != sets.health || own.neverFails != sets.neverFails},
		{"spec.nodeConditions", !slices.Equal(own.conditions, sets.conditions)},
	} {
		if field.different {
			c.find(migration.Finding{Level: migration.Lost, Object: object, Field: field.name, Text: "differs from that of MachineSet " + s.Name +
				", which counts for all its machines on Cluster API"})
		}
	}
	mine, theirs := objects.Value(m.Spec.MachineConfiguration), objects.Value(s.Spec.Template.Spec.MachineConfiguration)
	if !ptr.Equal(mine.MaxEvictRetries, theirs.MaxEvictRetries) {
		c.find(migration.Finding{Level: migration.Lost, Object: object, Field: "spec.maxEvictRetries", Text: retriesText})
	}
	if !ptr.Equal(mine.MachinePreserveTimeout, theirs.MachinePreserveTimeout) {
		c.find(migration.Finding{Level: migration.Lost, Object: object, Field: "spec.machinePreserveTimeout", Text: preserveText})
	}
}

// dropOffered removes annotations that the native API wrote from the capacity it was offered.
func dropOffered(into, annotations map[string]string) {
	for key, written := range offered(annotations) {
		if key != machinev1.CapacityNodeLabelAnnotation && key != machinev1.CapacityNodeTaintAnnotation &&
			into[key] == written {
			delete(into, key)
		}
	}
}
