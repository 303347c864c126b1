package infracluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// domains are the failure domains of the spec.
type domains struct {
	offered []clusterv1.FailureDomain
	refused []string // names of those that no class of the Cluster can honour
	classes []string // names of the classes, sorted
}

// domainsOf finds which failure domains of the spec a MachineClass of the Cluster's
// templates can honour. Without templates, or with a class that cannot be read, all
// are offered: what is not known yet is no reason to refuse one.
func (c *Controller) domainsOf(ctx context.Context, f *facts) (domains, error) {
	found := domains{offered: f.object.Spec.DeepCopy().FailureDomains}
	if len(found.offered) == 0 {
		return found, nil
	}
	classes, known, err := c.classesOf(ctx, f)
	if err != nil || !known || len(classes) == 0 {
		return found, err
	}
	for _, class := range classes {
		found.classes = append(found.classes, class.Name)
	}
	found.offered = slices.DeleteFunc(found.offered, func(d clusterv1.FailureDomain) bool {
		takes := slices.ContainsFunc(classes, func(class cloud.Class) bool { return class.TakesZone(d.Name) })
		if !takes {
			found.refused = append(found.refused, d.Name)
		}
		return !takes
	})
	return found, nil
}

// classesOf returns the classes of the Cluster's templates, sorted by name; known is
// false if one of them cannot be read.
func (c *Controller) classesOf(ctx context.Context, f *facts) (classes []cloud.Class, known bool, err error) {
	var list infrav1.MCMMachineTemplateList
	if err := c.Client.List(ctx, &list, client.InNamespace(f.object.Namespace)); err != nil {
		return nil, false, fmt.Errorf("look up MCMMachineTemplates: %w", err)
	}
	var names []string
	for i := range list.Items {
		cluster, _, err := capi.ClusterOf(ctx, c.Client, &list.Items[i])
		if err != nil {
			return nil, false, err
		}
		if cluster != nil && cluster.Name == f.cluster.Name {
			names = append(names, list.Items[i].Spec.Template.Spec.MachineClassRef.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		resolved, err := c.Classes.ResolveForTemplate(ctx, c.Client, f.object.Namespace, name)
		if err != nil {
			return nil, false, err
		}
		if resolved.Object == nil || resolved.Driver == nil {
			return nil, false, nil
		}
		classes = append(classes, resolved.Class)
	}
	return classes, true, nil
}

// condition reports whether all failure domains of the spec are offered.
func (d domains) condition() metav1.Condition {
	c := metav1.Condition{
		Type: infrav1.FailureDomainsOfferedCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonOffered,
	}
	if len(d.refused) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, infrav1.ReasonZoneNotInClass
		c.Message = fmt.Sprintf("spec.failureDomains %s not offered: MachineClasses %s cannot place VMs there; "+
			"add the zones to a class, or remove them here", strings.Join(d.refused, ", "), strings.Join(d.classes, ", "))
	}
	return c
}
