package fields

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nativeHead is a native MachineDeployment, or a MachineSet of its own.
type nativeHead struct {
	deployment *machinev1.MachineDeployment // nil: a MachineSet
	meta       *metav1.ObjectMeta
	replicas   *int32
	minReady   *int32
	preserve   int32
	template   *machinev1.MachineTemplateSpec
}

func headOfDeployment(d *machinev1.MachineDeployment) *nativeHead {
	return &nativeHead{
		d, &d.ObjectMeta, &d.Spec.Replicas, &d.Spec.MinReadySeconds, d.Spec.AutoPreserveFailedMachineMax,
		&d.Spec.Template,
	}
}

func headOfSet(s *machinev1.MachineSet) *nativeHead {
	return &nativeHead{
		nil, &s.ObjectMeta, &s.Spec.Replicas, &s.Spec.MinReadySeconds, s.Spec.AutoPreserveFailedMachineMax,
		&s.Spec.Template,
	}
}

// clusterHead is the same on Cluster API.
type clusterHead struct {
	deployment *clusterv1.MachineDeployment // nil: a MachineSet
	meta       *metav1.ObjectMeta
	replicas   **int32
	naming     string
	order      clusterv1.MachineSetDeletionOrder
	template   *clusterv1.MachineTemplateSpec
	back       *toNative // judges a move to the native API; nil in the other direction
}

func clusterHeadOfDeployment(d *clusterv1.MachineDeployment, back *toNative) *clusterHead {
	return &clusterHead{
		d, &d.ObjectMeta, &d.Spec.Replicas, d.Spec.MachineNaming.Template, d.Spec.Deletion.Order,
		&d.Spec.Template, back,
	}
}

func clusterHeadOfSet(s *clusterv1.MachineSet, back *toNative) *clusterHead {
	return &clusterHead{
		nil, &s.ObjectMeta, &s.Spec.Replicas, s.Spec.MachineNaming.Template, s.Spec.Deletion.Order,
		&s.Spec.Template, back,
	}
}

// headTable has the fields of MachineDeployments, and of MachineSets of their own, besides
// their template.
var headTable = []row[*nativeHead, *clusterHead]{
	{
		native: "spec.replicas", clusterAPI: "spec.replicas",
		toClusterAPI:     func(n *nativeHead, c *clusterHead) { *c.replicas = new(*n.replicas) },
		toNative:         func(c *clusterHead, n *nativeHead) { *n.replicas = objects.Value(*c.replicas) },
		leavesNative:     func(n *nativeHead) outcome { return kept(fmt.Sprintf("stays %d", *n.replicas)) },
		leavesClusterAPI: func(c *clusterHead) outcome { return kept(fmt.Sprintf("stays %d", objects.Value(*c.replicas))) },
	},
	{
		native: "spec.strategy.type", clusterAPI: "spec.rollout.strategy.type",
		toClusterAPI: func(n *nativeHead, c *clusterHead) {
			if n.deployment != nil {
				c.deployment.Spec.Rollout.Strategy = strategyToClusterAPI(n.deployment.Spec.Strategy)
			}
		},
		toNative: func(c *clusterHead, n *nativeHead) {
			if d := n.deployment; d != nil {
				d.Spec.Strategy, d.Spec.Paused = strategyToNative(c.deployment.Spec.Rollout.Strategy, d.Spec.Strategy)
			}
		},
		leavesNative:     onDeployment(judgeStrategyType),
		leavesClusterAPI: (*clusterHead).judgeOnDelete,
	},
	{
		clusterAPI: "spec.rollout.strategy",
		leavesClusterAPI: func(c *clusterHead) outcome {
			return when(c.deployment != nil && c.judgeOnDelete().level == "", kept("becomes spec.strategy"))
		},
	},
	{native: "spec.strategy.rollingUpdate", leavesNative: onDeployment(judgeRollingUpdate)},
	{native: "spec.strategy.inPlaceUpdate", leavesNative: onDeployment(judgeInPlaceUpdate)},
	{
		clusterAPI: "spec.rollout.after",
		leavesClusterAPI: func(c *clusterHead) outcome {
			return when(c.deployment != nil && !c.deployment.Spec.Rollout.After.IsZero(),
				lost("the native API rolls only for a new template"))
		},
	},
	{
		native: "spec.minReadySeconds", clusterAPI: "spec.template.spec.minReadySeconds", // judged with the template there
		toClusterAPI: func(n *nativeHead, c *clusterHead) {
			if *n.minReady > 0 {
				c.template.Spec.MinReadySeconds = new(*n.minReady)
			}
		},
		toNative: func(c *clusterHead, n *nativeHead) {
			*n.minReady = objects.Value(c.template.Spec.MinReadySeconds)
		},
		leavesNative: func(n *nativeHead) outcome {
			return when(*n.minReady > 0, replaced(fmt.Sprintf("becomes spec.template.spec.minReadySeconds; MCM ignores it, "+
				"Cluster API counts a machine as available only %d seconds after it is ready", *n.minReady)))
		},
	},
	{
		native: "spec.paused", clusterAPI: "spec.paused",
		toClusterAPI: func(n *nativeHead, c *clusterHead) {
			if n.deployment != nil && n.deployment.Spec.Paused {
				c.deployment.Spec.Paused = new(true)
			}
		},
		toNative: func(c *clusterHead, n *nativeHead) { // OnDelete has paused it already
			if d := n.deployment; d != nil {
				d.Spec.Paused = d.Spec.Paused || objects.Value(c.deployment.Spec.Paused)
			}
		},
		leavesNative: onDeployment(func(d *machinev1.MachineDeployment) outcome {
			return when(d.Spec.Paused, kept("stays: no rollouts, but scaling"))
		}),
	},
	{
		native: "spec.progressDeadlineSeconds",
		leavesNative: onDeployment(func(d *machinev1.MachineDeployment) outcome {
			return when(d.Spec.ProgressDeadlineSeconds != nil,
				lost("Cluster API has no deadline for a rollout; condition RollingOut tells since when one lasts"))
		}),
	},
	{
		native: "spec.revisionHistoryLimit",
		leavesNative: onDeployment(func(d *machinev1.MachineDeployment) outcome {
			return when(d.Spec.RevisionHistoryLimit != nil, lost("Cluster API deletes old MachineSets when a rollout is over; "+
				"a template to go back to is one that you keep"))
		}),
	},
	{
		native: "spec.autoPreserveFailedMachineMax",
		leavesNative: func(n *nativeHead) outcome {
			return when(n.preserve > 0, lost("Cluster API keeps no failed machines for examination; annotation "+
				"cluster.x-k8s.io/skip-remediation on a Machine keeps that one"))
		},
	},
	{
		clusterAPI: "spec.machineNaming.template",
		leavesClusterAPI: func(c *clusterHead) outcome {
			return when(c.naming != "", lost("the native API names machines itself"))
		},
	},
	{
		clusterAPI: "spec.deletion.order",
		toClusterAPI: func(_ *nativeHead, c *clusterHead) {
			if c.deployment != nil {
				c.deployment.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder
			}
		},
		leavesClusterAPI: func(c *clusterHead) outcome {
			return when(c.order == clusterv1.NewestMachineSetDeletionOrder,
				lost("the native API deletes the oldest of equal machines first"))
		},
	},
	{
		clusterAPI: "spec.remediation.maxInFlight",
		toClusterAPI: func(_ *nativeHead, c *clusterHead) {
			if c.deployment != nil { // as MCM, one after the other
				c.deployment.Spec.Remediation.MaxInFlight = new(intstr.FromInt32(1))
			}
		},
		leavesClusterAPI: func(c *clusterHead) outcome {
			d := c.deployment
			return when(d != nil && d.Spec.Remediation.MaxInFlight != nil && d.Spec.Remediation.MaxInFlight.String() != "1",
				replaced("the native API replaces one machine after the other"))
		},
	},
	{
		toClusterAPI: func(n *nativeHead, c *clusterHead) {
			c.meta.Annotations = objects.Merge(c.meta.Annotations, annotationsToClusterAPI(n.meta.Annotations))
		},
		toNative: func(c *clusterHead, n *nativeHead) {
			n.meta.Annotations = objects.Merge(n.meta.Annotations, annotationsToNative(c.meta.Annotations))
		},
	},
}

// onDeployment judges a field that only a MachineDeployment has.
func onDeployment(judge func(*machinev1.MachineDeployment) outcome) func(*nativeHead) outcome {
	return func(n *nativeHead) outcome {
		if n.deployment == nil {
			return outcome{}
		}
		return judge(n.deployment)
	}
}

// judgeOnDelete is about a strategy that the native API does not have.
func (c *clusterHead) judgeOnDelete() outcome {
	d := c.deployment
	return when(d != nil && d.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType &&
		!c.back.keepsStrategy(d), lost("OnDelete becomes RollingUpdate with spec.paused: a new template replaces nothing, "+
		"also not a machine that is deleted, until it is unpaused"))
}

// keepsStrategy reports whether the native strategy is the one that became this one.
func (c *toNative) keepsStrategy(d *clusterv1.MachineDeployment) bool {
	if c.Native.Deployment == nil {
		return false
	}
	_, paused := strategyToNative(d.Spec.Rollout.Strategy, c.Native.Deployment.Spec.Strategy)
	return !paused
}

// judgeHead returns what becomes of the fields of a head on Cluster API.
func (c *toClusterAPI) judgeHead(kind string, n *nativeHead) {
	object := objects.Name(kind, n.meta)
	c.findings = append(c.findings, judgeNative(headTable, object, "", n)...)
	c.findings = append(c.findings, judgeAnnotations(object, n.meta.Annotations)...)
	c.judgeConfiguration(object, "spec.template.spec.", n.template.Spec.MachineConfiguration, n.meta.Annotations)
	c.judgeTemplate(object, n.template)
	c.judgeOwners(object, n.meta)
}

// judgeHead returns what becomes of the fields of a head on the native API.
func (c *toNative) judgeHead(kind string, head *clusterHead) {
	object := objects.Name(kind, head.meta)
	c.findings = append(c.findings, judgeClusterAPI(headTable, object, "", head)...)
	c.findings = append(c.findings, judgeClusterAPIAnnotations(object, head.meta.Annotations, headAnnotations)...)
	template := c.clusterTemplate(&head.template.Spec)
	c.findings = append(c.findings, judgeClusterAPI(templateTable, object, "", template)...)
	if template.infra != nil {
		c.findings = append(c.findings, judgeClusterAPI(mcmMachineTable, objects.Name(objects.KindMCMMachineTemplate,
			template.infra), "spec.template.spec.", &template.infra.Spec.Template.Spec)...)
	}
	c.judgeSpec(object, "spec.template.spec.", &head.template.Spec)
	c.judgeHealth(object)
	c.judgeFinalizers(object, head.meta)
}

// judgeFinalizers is about who else waits for an object's end: finish removes it.
func (c *toNative) judgeFinalizers(object string, o metav1.Object) {
	c.findings = append(c.findings, judgeFinalizers(object, o, clusterv1.MachineFinalizer, clusterv1.MachineSetFinalizer,
		clusterv1.MachineDeploymentFinalizer, clusterv1.MachineSetTopologyFinalizer,
		clusterv1.MachineDeploymentTopologyFinalizer)...)
}

// judgeOwners is about who else counts on an object: finish removes it.
func (c *toClusterAPI) judgeOwners(object string, o metav1.Object) {
	c.findings = append(c.findings, judgeFinalizers(object, o, machinev1.Finalizer)...)
	for _, ref := range o.GetOwnerReferences() {
		if !objects.Value(ref.Controller) {
			text := fmt.Sprintf("the copy does not belong to %s %s, and is not deleted with it", ref.Kind, ref.Name)
			c.find(lost(text).finding(object, "metadata.ownerReferences"))
		}
	}
}

func judgeFinalizers(object string, o metav1.Object, known ...string) (found []migration.Finding) {
	known = append(known, metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents)
	for _, f := range o.GetFinalizers() {
		if !slices.Contains(known, f) {
			found = append(found, lost("it is somebody else's, who is not asked when finish removes the object; the copy does "+
				"not have it").finding(object, "metadata.finalizers["+f+"]"))
		}
	}
	return found
}

// strategyToClusterAPI is how Cluster API replaces machines where MCM does so as s
// says. It is the nearest there is; see judgeStrategyType for what it lacks.
func strategyToClusterAPI(s machinev1.MachineDeploymentStrategy) clusterv1.MachineDeploymentRolloutStrategy {
	rolling := func(surge, unavailable intstr.IntOrString) clusterv1.MachineDeploymentRolloutStrategy {
		return clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
			RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
				MaxSurge: &surge, MaxUnavailable: &unavailable,
			},
		}
	}
	switch s.Type {
	case machinev1.InPlaceUpdateStrategyType:
		// The only one that never replaces a machine because of a new template.
		return clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.OnDeleteMachineDeploymentStrategyType}
	case machinev1.RecreateStrategyType:
		return rolling(intstr.FromInt32(0), intstr.FromString("100%"))
	case machinev1.RollingUpdateStrategyType:
	}
	if s.RollingUpdate == nil {
		return rolling(intstr.FromInt32(1), intstr.FromInt32(0))
	}
	surge := objects.Value(cmp.Or(s.RollingUpdate.MaxSurge, new(intstr.FromInt32(0))))
	unavailable := objects.Value(cmp.Or(s.RollingUpdate.MaxUnavailable, new(intstr.FromInt32(0))))
	if zero(surge) && zero(unavailable) {
		unavailable = intstr.FromInt32(1) // MCM takes it for that
	}
	return rolling(surge, unavailable)
}

func zero(n intstr.IntOrString) bool { return n == intstr.FromInt32(0) || n == intstr.FromString("0%") }

// strategyToNative is the reverse. The strategy that a pool has natively stays if
// Cluster API's is what it becomes there.
func strategyToNative(s clusterv1.MachineDeploymentRolloutStrategy,
	have machinev1.MachineDeploymentStrategy,
) (_ machinev1.MachineDeploymentStrategy, paused bool) {
	if have.Type != "" && equality.Semantic.DeepEqual(strategyToClusterAPI(have), s) {
		return have, false
	}
	bounds := machinev1.UpdateConfiguration{
		MaxSurge:       cmp.Or(s.RollingUpdate.MaxSurge, new(intstr.FromInt32(1))),
		MaxUnavailable: cmp.Or(s.RollingUpdate.MaxUnavailable, new(intstr.FromInt32(0))),
	}
	return machinev1.MachineDeploymentStrategy{
		Type:          machinev1.RollingUpdateStrategyType,
		RollingUpdate: &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: bounds},
	}, s.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
}

func judgeStrategyType(d *machinev1.MachineDeployment) outcome {
	switch d.Spec.Strategy.Type {
	case machinev1.RollingUpdateStrategyType:
		return kept("becomes spec.rollout.strategy.type")
	case machinev1.InPlaceUpdateStrategyType:
		return lost("InPlaceUpdate becomes OnDelete: Cluster API updates machines in place only through a runtime " +
			"extension; a new template replaces nothing until a machine is deleted")
	case machinev1.RecreateStrategyType:
		return lost("Recreate becomes RollingUpdate with maxSurge 0 and maxUnavailable 100%: all old machines go at once, " +
			"but new ones do not wait for the last of them")
	}
	return blocked(fmt.Sprintf("%q is no strategy of MCM, which does nothing for such a MachineDeployment",
		d.Spec.Strategy.Type), "set it to RollingUpdate, with spec.strategy.rollingUpdate")
}

func judgeRollingUpdate(d *machinev1.MachineDeployment) outcome {
	s := d.Spec.Strategy
	switch {
	case s.Type != machinev1.RollingUpdateStrategyType:
		return outcome{}
	case s.RollingUpdate == nil || incomplete(s.RollingUpdate.UpdateConfiguration):
		return blockedBounds()
	case zero(*s.RollingUpdate.MaxSurge) && zero(*s.RollingUpdate.MaxUnavailable):
		return replaced("both are 0, which MCM takes for maxUnavailable 1; that is written out, as Cluster API refuses 0 " +
			"and 0")
	}
	return kept("becomes spec.rollout.strategy.rollingUpdate, with the same numbers")
}

func judgeInPlaceUpdate(d *machinev1.MachineDeployment) outcome {
	s := d.Spec.Strategy
	switch {
	case s.Type != machinev1.InPlaceUpdateStrategyType:
		return outcome{}
	case s.InPlaceUpdate == nil || incomplete(s.InPlaceUpdate.UpdateConfiguration):
		return blockedBounds()
	}
	return lost("OnDelete has no bounds: who deletes the machines decides how many at a time")
}

func incomplete(u machinev1.UpdateConfiguration) bool {
	return u.MaxSurge == nil || u.MaxUnavailable == nil
}

func blockedBounds() outcome {
	return blocked("maxSurge or maxUnavailable is missing; MCM does nothing for such a MachineDeployment", "set both")
}
